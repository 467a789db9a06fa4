import CoveCore

/// What a tree must look like after some steps, in names, bytes and links.
struct Model {
    struct Node: Equatable {
        var kind: ItemKind
        var bytes: [UInt8] = []
        var permissions: UInt16?
        var attributes: [String: [UInt8]] = [:]
    }

    /// Below here both sides change the same documents, and only what they wrote counts.
    static let contested = "both"

    private(set) var names: [String: Int] = [:]
    private(set) var nodes: [Int: Node] = [:]
    private var handles: [String: Int] = [:]
    /// What a path may still show of the time before another device changed it; nil for nothing.
    private(set) var stale: [String: [Node?]] = [:]
    /// Every content that a contested document ever had.
    private(set) var contents: Set<[UInt8]> = []
    /// What was written to contested documents there, and the nodes that were written to here.
    private(set) var remoteContents: Set<[UInt8]> = []
    private(set) var written: Set<Int> = []
    /// True while sending is held back, so that contested documents are still as they were left here.
    private(set) var isPaused = false

    static func isContested(_ path: String) -> Bool { path.hasPrefix(contested + "/") }

    func node(_ path: String) -> Node? { names[path].flatMap { nodes[$0] } }

    func linkCount(_ path: String) -> Int {
        guard let id = names[path] else { return 0 }
        return names.values.count { $0 == id }
    }

    /// Contents of contested documents that must not be lost.
    var precious: Set<[UInt8]> {
        let here = names.filter { Model.isContested($0.key) && written.contains($0.value) }
        return remoteContents.union(here.values.compactMap { nodes[$0]?.bytes })
    }

    /// The states that a step may leave when it is cut off: as before, as after, or a part of what it writes.
    func outcomes(of step: Step) -> [Model] {
        var results = [self, self.after(step)]
        if case .write(let handle, let offset, let content) = step {
            let count = content.bytes.count
            let parts = [count / 2] + stride(from: 4096, to: count, by: 4096)
            for part in parts where part > 0 {
                var model = self
                model.write(handle, at: offset, Array(content.bytes.prefix(part)))
                results.append(model)
            }
        }
        return results
    }

    func after(_ step: Step) -> Model {
        var model = self
        model.apply(step)
        return model
    }

    mutating func apply(_ step: Step) {
        switch step {
        case .create(let path, let handle): handles[handle] = add(path, Node(kind: .file, permissions: 0o644))
        case .open(let path, let handle, let truncating):
            handles[handle] = names[path]
            if truncating { change(names[path]) { $0.bytes = [] } }
        case .write(let handle, let offset, let content): write(handle, at: offset, content.bytes)
        case .fsync, .flush, .read, .evict, .arrival, .glimpse: break
        case .release(let handle): handles[handle] = nil
        case .truncate(let path, let size):
            change(names[path]) { node in
                let missing = size - node.bytes.count
                if missing > 0 { node.bytes += [UInt8](repeating: 0, count: missing) }
                if missing < 0 { node.bytes.removeLast(-missing) }
            }
        case .rename(let from, let to): move(from, to)
        case .exchange(let one, let other):
            let between = "\u{0}"
            move(one, between)
            move(other, one)
            move(between, other)
        case .link(let path, let name): names[name] = names[path]
        case .unlink(let path), .removeDirectory(let path): names[path] = nil
        case .makeDirectory(let path): add(path, Node(kind: .directory, permissions: 0o755))
        case .symlink(let path, let target): add(path, Node(kind: .symbolicLink, bytes: Array(target.utf8)))
        case .setAttribute(let path, let name, let value): change(names[path]) { $0.attributes[name] = value.bytes }
        case .chmod(let path, let permissions): change(names[path]) { $0.permissions = permissions }
        case .pause: isPaused = true
        case .resume: isPaused = false
        case .settle: stale = [:]
        case .remoteSave(let path, let content): saveRemotely(path, content.bytes)
        case .remoteRemove(let path):
            if Model.isContested(path), isPaused { return }
            for inner in tree(path) { retire(inner) }
        case .remoteRename(let from, let to):
            for inner in tree(from) {
                stale[to + inner.dropFirst(from.count), default: []].append(nil)
                stale[inner, default: []].append(node(inner))
            }
            move(from, to)
        case .remoteMakeDirectory(let path):
            var above = ""
            for name in path.split(separator: "/") {
                above += above.isEmpty ? "\(name)" : "/\(name)"
                if names[above] == nil {
                    stale[above, default: []].append(nil)
                    add(above, Node(kind: .directory))
                }
            }
        }
    }

    private mutating func saveRemotely(_ path: String, _ bytes: [UInt8]) {
        contents.insert(bytes)
        if Model.isContested(path), isPaused {
            remoteContents.insert(bytes)
            return
        }
        stale[path, default: []].append(node(path))
        add(path, Node(kind: .file, bytes: bytes))
    }

    private mutating func retire(_ path: String) {
        stale[path, default: []].append(node(path))
        names[path] = nil
    }

    @discardableResult
    private mutating func add(_ path: String, _ node: Node) -> Int {
        let id = nodes.count + 1
        nodes[id] = node
        names[path] = id
        contents.insert(node.bytes)
        return id
    }

    private mutating func change(_ id: Int?, _ body: (inout Node) -> Void) {
        guard let id, var node = nodes[id] else { return }
        body(&node)
        nodes[id] = node
        contents.insert(node.bytes)
        written.insert(id)
    }

    private mutating func write(_ handle: String, at offset: Int, _ bytes: [UInt8]) {
        change(handles[handle]) { node in
            let missing = offset + bytes.count - node.bytes.count
            if missing > 0 { node.bytes += [UInt8](repeating: 0, count: missing) }
            node.bytes.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
        }
    }

    /// A path and all below it.
    private func tree(_ path: String) -> [String] { names.keys.filter { $0 == path || $0.hasPrefix(path + "/") } }

    private mutating func move(_ from: String, _ to: String) {
        let moved = tree(from).map { ($0, to + $0.dropFirst(from.count)) }
        let ids = moved.map { names.removeValue(forKey: $0.0) }
        for ((_, path), id) in zip(moved, ids) { names[path] = id }
    }
}
