internal import CoveCore
internal import CoveEngine
internal import Synchronization

/// Guesses which programs ask directories for names alone, as `find` does: such a program is spared the attributes, for which
/// the kernel makes an inode of each file.
///
/// A listing with attributes leaves those of one file out. A program that looks at the files of a directory then asks for them,
/// as does another one that it hands the names to; who has not done so in two directories is given names alone, until somebody
/// asks for a file of one of them. Directories always come with attributes, for who walks down into them.
final class Walkers: Sendable {
    /// What a listing has of the files in it.
    enum Detail: Sendable { case attributes, attributesButOne, names }

    fileprivate struct Walker {
        let thread: Int32
        /// The directories in a row in which nobody looked at the file that was left out.
        var unseen = 0
        var detail = Detail.attributes
        /// The one that is being read, and whether a file in it was left out.
        var directory: ItemID
        var hasLeftOut = false
        /// How many directories more are listed with all attributes.
        var rest = 0
    }

    private struct State {
        /// The oldest first.
        var walkers: [Walker] = []
        /// Which thread has read a directory lately, and those in the order in which they came.
        var readers: [ItemID: Int32] = [:]
        var read: [ItemID] = []
        var next = 0
        /// Those whose listing the kernel has kept without attributes.
        var named: Set<ItemID> = []
    }

    fileprivate static let enough = 2
    private static let walkers = 16
    private static let directories = 256
    /// Of more directories it is forgotten how they were listed.
    private static let namedDirectories = 16_384
    /// A program that looks is tried again so seldom.
    fileprivate static let pause = 8

    private let state = Mutex(State())

    /// What a page of a listing is to have; `isFirst` for the one that begins it.
    func detail(of directory: ItemID, for thread: Int32, isFirst: Bool) -> Detail {
        state.withLock { state in
            guard let index = state.walkers.firstIndex(where: { $0.thread == thread }) else {
                guard isFirst else { return .attributes }
                if state.walkers.count == Self.walkers { state.walkers.removeFirst() }
                state.walkers.append(Walker(thread: thread, detail: .attributesButOne, directory: directory))
                Self.note(directory, thread, &state)
                return .attributesButOne
            }
            guard isFirst else {
                let walker = state.walkers[index]
                return walker.directory == directory && walker.detail == .names ? .names : .attributes
            }
            state.walkers[index].begin(directory)
            Self.note(directory, thread, &state)
            let detail = state.walkers[index].detail
            if detail == .names {
                if state.named.count == Self.namedDirectories { state.named = [] }
                state.named.insert(directory)
            }
            return detail
        }
    }

    /// True when a program may be given the listing that the kernel has kept; else it is to be made anew.
    func mayKeep(_ directory: ItemID, for thread: Int32) -> Bool {
        state.withLock { state in
            guard state.named.contains(directory) else { return true }
            if state.walkers.first(where: { $0.thread == thread })?.wantsNames == true { return true }
            state.named.remove(directory)
            return false
        }
    }

    /// A file's attributes were left out of a listing.
    func noteLeftOut(of directory: ItemID, for thread: Int32) {
        state.withLock { state in
            guard let index = state.walkers.firstIndex(where: { $0.thread == thread }) else { return }
            if state.walkers[index].directory == directory { state.walkers[index].hasLeftOut = true }
        }
    }

    /// Somebody has asked for a file of a directory by its name.
    func noteLookup(in directory: ItemID) {
        state.withLock { state in
            guard let thread = state.readers.removeValue(forKey: directory),
                let index = state.walkers.firstIndex(where: { $0.thread == thread })
            else { return }
            state.walkers[index].look()
        }
    }

    private static func note(_ directory: ItemID, _ thread: Int32, _ state: inout State) {
        if state.readers.updateValue(thread, forKey: directory) != nil { return }
        if state.read.count < directories {
            state.read.append(directory)
        } else {
            // One that was read again since is forgotten early, at worst.
            state.readers[state.read[state.next]] = nil
            state.read[state.next] = directory
            state.next = (state.next + 1) % directories
        }
    }
}

extension Walkers.Walker {
    /// True when the next directory is listed without attributes.
    var wantsNames: Bool { unseen + (hasLeftOut ? 1 : 0) >= Walkers.enough }

    /// Goes on with the next directory.
    mutating func begin(_ next: ItemID) {
        if hasLeftOut, unseen < Walkers.enough { unseen += 1 }
        directory = next
        hasLeftOut = false
        if unseen >= Walkers.enough {
            detail = .names
        } else if rest > 0 {
            rest -= 1
            detail = .attributes
        } else {
            detail = .attributesButOne
        }
    }

    /// The files are looked at.
    mutating func look() {
        unseen = 0
        hasLeftOut = false
        rest = Walkers.pause
        detail = .attributes
    }
}
