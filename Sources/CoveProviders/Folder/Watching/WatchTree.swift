internal import CoveCore

/// Which directory a watched one is, whatever its path.
struct DirectoryKey: Hashable {
    let inode: UInt64
    let birthTime: Timestamp
    let device: UInt64
}

extension DirectoryKey {
    init(_ status: FileStatus) {
        self.init(inode: status.inode, birthTime: status.birthTime, device: status.device)
    }
}

/// A name in a watched directory.
struct WatchedEntry: Hashable {
    let directory: Int
    let name: [UInt8]
}

/// The watched directories and where they are: pure bookkeeping, without system calls.
///
/// A directory is known by a number that stays when it moves. One that left its place and has not been found at another
/// is *detached*; neither it nor anything below it has a path then.
struct WatchTree {
    struct Node {
        var parent: Int
        var name: [UInt8]
        let key: DirectoryKey
        /// inotify's watch descriptor; -1 for a directory that is polled.
        var watch: Int32
        /// The directory's own modification time when it was last looked at.
        var modified: Timestamp
        var children = 0
        var isDetached = false
        /// When it came to its place, in moves of any directory.
        var placed = 0
    }

    static let root = 0
    private(set) var nodes: [Int: Node] = [:]
    private(set) var detached: Set<Int> = []
    private(set) var polled = 0
    private var byEntry: [WatchedEntry: Int] = [:]
    private var byWatch: [Int32: Int] = [:]
    private var byKey: [DirectoryKey: Int] = [:]
    private var moves = 0
    private var nextNumber = 1

    func node(watch: Int32) -> Int? { byWatch[watch] }

    func node(key: DirectoryKey) -> Int? { byKey[key] }

    func node(at entry: WatchedEntry) -> Int? { byEntry[entry] }

    func node(at path: RemotePath) -> Int? {
        var number = Self.root
        for name in path.names {
            guard let next = byEntry[WatchedEntry(directory: number, name: name.bytes)] else { return nil }
            number = next
        }
        return nodes[number] == nil ? nil : number
    }

    func path(_ number: Int) -> RemotePath? {
        var names: [FileName] = []
        var number = number
        while number != Self.root {
            guard let node = nodes[number], !node.isDetached else { return nil }
            names.append(FileName(unchecked: node.name))
            number = node.parent
        }
        return RemotePath(names.reversed())
    }

    /// A number that grows with each move of the directory or of one above it; nil while it has no path.
    func placed(_ number: Int) -> Int? {
        var last = 0
        var number = number
        while number != Self.root {
            guard let node = nodes[number], !node.isDetached else { return nil }
            last = max(last, node.placed)
            number = node.parent
        }
        return last
    }

    mutating func insertRoot(_ key: DirectoryKey, watch: Int32, modified: Timestamp) {
        nodes[Self.root] = Node(parent: Self.root, name: [], key: key, watch: -1, modified: modified)
        polled += 1
        setWatch(Self.root, watch)
    }

    /// Adds a directory; what was watched under the name before is detached.
    mutating func insert(_ entry: WatchedEntry, _ key: DirectoryKey, watch: Int32, modified: Timestamp) {
        if let old = byEntry[entry] { detach(old) }
        let number = nextNumber
        nextNumber += 1
        nodes[number] = Node(parent: entry.directory, name: entry.name, key: key, watch: -1, modified: modified)
        nodes[entry.directory]?.children += 1
        byEntry[entry] = number
        byKey[key] = number
        polled += 1
        setWatch(number, watch)
    }

    mutating func setWatch(_ number: Int, _ watch: Int32) {
        guard let old = nodes[number]?.watch, old != watch else { return }
        if old >= 0 { byWatch[old] = nil } else { polled -= 1 }
        if watch >= 0 { byWatch[watch] = number } else { polled += 1 }
        nodes[number]?.watch = watch
    }

    mutating func setModified(_ number: Int, _ time: Timestamp) { nodes[number]?.modified = time }

    mutating func detach(_ number: Int) {
        guard number != Self.root, let node = nodes[number], !node.isDetached else { return }
        byEntry[WatchedEntry(directory: node.parent, name: node.name)] = nil
        nodes[node.parent]?.children -= 1
        nodes[number]?.isDetached = true
        detached.insert(number)
    }

    /// Puts a directory under a name, from wherever it was.
    mutating func attach(_ number: Int, at entry: WatchedEntry) {
        guard number != Self.root, number != entry.directory else { return }
        if let old = byEntry[entry] {
            if old == number { return }
            detach(old)
        }
        detach(number)
        detached.remove(number)
        nodes[number]?.isDetached = false
        nodes[number]?.parent = entry.directory
        nodes[number]?.name = entry.name
        moves += 1
        nodes[number]?.placed = moves
        nodes[entry.directory]?.children += 1
        byEntry[entry] = number
    }

    func detachedNode(_ key: DirectoryKey) -> Int? { detached.first { nodes[$0]?.key == key } }

    /// Forgets a detached directory with all below; returns the watches that are to end.
    mutating func forget(_ number: Int) -> [Int32] {
        detach(number)
        guard let top = nodes[number] else { return [] }
        var doomed = [number]
        if top.children > 0 { doomed += nodes.keys.filter { isBelow($0, number) } }
        var watches: [Int32] = []
        for number in doomed {
            guard let node = nodes[number] else { continue }
            if node.watch >= 0 { watches.append(node.watch) }
            setWatch(number, -1)
            polled -= 1
            byEntry[WatchedEntry(directory: node.parent, name: node.name)] = nil
            if byKey[node.key] == number { byKey[node.key] = nil }
            detached.remove(number)
            nodes[number] = nil
        }
        return watches
    }

    private func isBelow(_ number: Int, _ ancestor: Int) -> Bool {
        var number = number
        while number != Self.root, let node = nodes[number] {
            if node.isDetached { return false }
            number = node.parent
            if number == ancestor { return true }
        }
        return false
    }
}
