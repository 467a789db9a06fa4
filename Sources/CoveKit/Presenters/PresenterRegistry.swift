internal import CoveCore
internal import Foundation
internal import Synchronization

/// The presenters of this process.
enum PresenterRegistry {
    private struct Entry {
        var mailbox: PresenterMailbox
        var authority: (any Authority)?
    }

    private static let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    static var presenters: [any FilePresenter] { entries.withLock { $0.values.map(\.mailbox.presenter) } }

    /// The presenter's mailbox; nil for one that is not registered.
    static func mailbox(of presenter: any FilePresenter) -> PresenterMailbox? {
        entries.withLock { $0[ObjectIdentifier(presenter)]?.mailbox }
    }

    /// Adds a presenter, which stays until `remove`; a second time it changes nothing.
    ///
    /// Throws EINVAL for a message that the presenter has no method for.
    static func add(_ presenter: any FilePresenter) throws(CoveError) {
        let type = type(of: presenter)
        if let message = presenter.implementedMessages.subtracting(type.messagesWithMethods).map(\.rawValue).min() {
            throw CoveError(.invalidArgument, "\(type) has no method for \(message)", url: presenter.presentedItemURL)
        }
        let place = try place(of: presenter)
        let mailbox = PresenterMailbox(presenter, at: place?.1)
        let key = ObjectIdentifier(presenter)
        let isNew = entries.withLock { entries in
            guard entries[key] == nil else { return false }
            entries[key] = Entry(mailbox: mailbox, authority: place?.0)
            return true
        }
        guard isNew else { return }
        do throws(CoveError) { try place?.0.add(mailbox) } catch {
            entries.withLock { _ = $0.removeValue(forKey: key) }
            throw error
        }
    }

    static func remove(_ presenter: any FilePresenter) {
        guard let entry = entries.withLock({ $0.removeValue(forKey: ObjectIdentifier(presenter)) }) else { return }
        entry.authority?.remove(entry.mailbox)
        entry.mailbox.reacquire()
    }

    /// A presented item has moved to another file system: whoever is asked there sends the messages from now on.
    ///
    /// Blocks.
    static func follow(_ mailbox: PresenterMailbox, to path: String) {
        let key = ObjectIdentifier(mailbox.presenter)
        guard let entry = entries.withLock({ $0[key] }), entry.mailbox === mailbox,
            let (authority, place) = try? Authorities.find(URL(fileURLWithPath: path), followsLink: true)
        else { return }
        entry.authority?.remove(mailbox)
        mailbox.follow(to: place)
        mailbox.reacquire()
        entries.withLock { $0[key]?.authority = authority }
        try? authority.add(mailbox)
    }

    /// What is presented: at a symbolic link that is what it points at.
    private static func place(
        of presenter: any FilePresenter
    ) throws(CoveError) -> (any Authority, Location)? {
        try presenter.presentedItemURL.map { url throws(CoveError) in try Authorities.find(url, followsLink: true) }
    }

    /// The presenter's URL may be another one; it is asked.
    static func update(_ presenter: any FilePresenter) throws(CoveError) {
        let key = ObjectIdentifier(presenter)
        guard let entry = entries.withLock({ $0[key] }) else { return }
        // One that has not heard of a move yet is not taken back to where it was; a link may lead elsewhere by now.
        let name = presenter.presentedItemURL?.path
        guard !LocalPath.isSame(name, entry.mailbox.location?.path), !entry.mailbox.isMoving(from: name) else { return }
        let place = try place(of: presenter)
        guard place?.1 != entry.mailbox.location else { return }
        entry.mailbox.place(at: place?.1, called: name)
        if let authority = entry.authority, authority === place?.0 { return try authority.move(entry.mailbox) }
        entry.authority?.remove(entry.mailbox)
        entry.mailbox.reacquire()
        entries.withLock { $0[key]?.authority = place?.0 }
        try place?.0.add(entry.mailbox)
    }
}
