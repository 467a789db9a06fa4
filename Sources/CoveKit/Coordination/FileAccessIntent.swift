internal import CoveCore
public import Foundation
internal import Synchronization

/// One item of a coordinated access, and what will be done with it.
public final class FileAccessIntent: Sendable {
    /// What the item is used for.
    enum Purpose: Hashable, Sendable {
        case reading(FileCoordinator.ReadingOptions)
        case writing(FileCoordinator.WritingOptions)
    }

    let purpose: Purpose
    private let current: Mutex<URL>

    private init(_ url: URL, _ purpose: Purpose) {
        self.purpose = purpose
        current = Mutex(url)
    }

    /// An item to be read.
    public static func readingIntent(
        with url: URL,
        options: FileCoordinator.ReadingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .reading(options))
    }

    /// An item to be changed, made, moved or deleted.
    public static func writingIntent(
        with url: URL,
        options: FileCoordinator.WritingOptions = []
    ) -> FileAccessIntent {
        FileAccessIntent(url, .writing(options))
    }

    /// Where the item is; use this one inside an accessor, for the item may have moved while the claim waited.
    public internal(set) var url: URL {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }

    /// True where a symbolic link itself is deleted, moved or replaced; what reads or changes one uses what it points at.
    var concernsLink: Bool {
        guard case .writing(let options) = purpose else { return false }
        return !options.isDisjoint(with: [.forDeleting, .forMoving, .forReplacing])
    }

    /// Throws EINVAL for options that exclude each other.
    func check() throws(CoveError) {
        guard case .writing(let options) = purpose, options.wire.count > 1 else { return }
        throw CoveError(.invalidArgument, "a writer has one option at most", url: url)
    }
}
