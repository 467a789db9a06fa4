internal import CoveCore
internal import Synchronization

/// Items that lost their last name while a program has them open and bytes of them are only at the provider.
///
/// Their documents are neither overwritten nor deleted there before the last close, or before all bytes are here.
final class Departing: Sendable {
    private let documents = Mutex<[ItemID: DocumentID]>([:])
    private let count = Atomic<Int>(0)

    func add(_ item: ItemID, of document: DocumentID) {
        documents.withLock { documents in
            documents[item] = document
            count.store(documents.count, ordering: .releasing)
        }
    }

    func remove(_ item: ItemID) {
        guard count.load(ordering: .acquiring) > 0 else { return }
        documents.withLock { documents in
            documents[item] = nil
            count.store(documents.count, ordering: .releasing)
        }
    }

    /// The document whose bytes an item still needs.
    func document(of item: ItemID) -> DocumentID? {
        guard count.load(ordering: .acquiring) > 0 else { return nil }
        return documents.withLock { $0[item] }
    }

    /// True while the bytes that the provider has of a document are needed.
    func needs(_ document: DocumentID) -> Bool {
        guard count.load(ordering: .acquiring) > 0 else { return false }
        return documents.withLock { $0.values.contains(document) }
    }
}
