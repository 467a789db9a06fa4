internal import CoveCore

/// Items that lost their last name while a program has them open and bytes of them are only at the provider.
///
/// Their documents are neither overwritten nor deleted there before the last close, or before all bytes are here.
struct Departing: Sendable {
    private let documents = RareTable<ItemID, DocumentID>()

    func add(_ item: ItemID, of document: DocumentID) { documents.insert(document, for: item) }

    func remove(_ item: ItemID) { documents.remove(item) }

    /// The document whose bytes an item still needs.
    func document(of item: ItemID) -> DocumentID? { documents[item] }

    /// True while the bytes that the provider has of a document are needed.
    func needs(_ document: DocumentID) -> Bool { documents.contains { $1 == document } }
}
