import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation

/// What is found in a tree or in a folder.
struct Snapshot {
    struct Entry {
        var kind: ItemKind
        var size: Int64
        /// The bytes of a file or where a link points; nil where they are not here.
        var bytes: [UInt8]?
        var permissions: UInt16
        var linkCount = 1
        var attributes: [String: [UInt8]] = [:]
    }

    var entries: [String: Entry] = [:]
    /// Directories whose names are not here.
    var unlisted: [String] = []
    /// Cove's own names, but for its trash.
    var leftovers: [String] = []

    private init() {}

    /// Reads a tree; with `onlyLocal` just what is here, so that the engine need not be started.
    init(_ tree: EngineTree, onlyLocal: Bool, attributes: Set<String>) throws {
        var pending = [""]
        while let directory = pending.popLast() {
            for (name, _) in try tree.list(directory) {
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                let status = try tree.engine.item(at: RemotePath(unchecked: Array(path.utf8)))
                let id = try tree.resolve(path)
                let found = try tree.engine.attributes(of: id)
                var entry = Entry(kind: found.kind, size: found.size, permissions: found.permissions)
                entry.linkCount = Int(found.linkCount)
                for name in attributes {
                    entry.attributes[name] = try? tree.engine.extendedAttribute(id, Array(name.utf8))
                }
                switch found.kind {
                case .directory:
                    if onlyLocal, status.state == "dataless" { unlisted.append(path) } else { pending.append(path) }
                case .symbolicLink: entry.bytes = try tree.engine.readLink(id)
                default:
                    let isHere = status.state == "materialized" || status.state == "local"
                    if isHere || !onlyLocal { entry.bytes = try tree.read(path) }
                }
                entries[path] = entry
            }
        }
    }

    /// Reads a folder.
    init(folder: String, attributes: Set<String>) throws {
        var pending = [""]
        while let directory = pending.popLast() {
            for name in try FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(directory)") {
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                if path == ".cove" { continue }
                if name.hasPrefix(".cove") { leftovers.append(path) }
                let place = Array("\(folder)/\(path)".utf8)
                let status = try System.status(AT_FDCWD, place)
                var entry = Entry(kind: status.kind, size: status.size, permissions: status.permissions)
                switch status.kind {
                case .directory: pending.append(path)
                case .symbolicLink: entry.bytes = try System.readlinkat(AT_FDCWD, place)
                default: entry.bytes = try Array(Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(path)")))
                }
                if status.kind != .symbolicLink {
                    for name in attributes { entry.attributes[name] = try? System.attribute(place, Array(name.utf8)) }
                }
                entries[path] = entry
            }
        }
    }

    /// Where this tree and the folder it stands for differ.
    func differences(from source: Snapshot) -> [String] {
        var found = source.leftovers.map { "the source keeps \($0)" }
        for path in Set(entries.keys).union(source.entries.keys).sorted() where !path.hasSuffix("~") {
            guard let here = entries[path] else {
                found.append("only the source has \(path)")
                continue
            }
            guard let there = source.entries[path] else {
                found.append("the source lacks \(path)")
                continue
            }
            if here.kind != there.kind { found.append("\(path): \(here.kind) here, \(there.kind) at the source") }
            if here.bytes != there.bytes { found.append("\(path): other bytes at the source") }
            if here.kind != .symbolicLink, here.permissions != there.permissions {
                found.append("\(path): mode \(here.permissions) here, \(there.permissions) at the source")
            }
            if here.attributes != there.attributes { found.append("\(path): other attributes at the source") }
        }
        return found
    }
}

extension Model {
    /// Where a tree differs; what another device changed may not have come in yet unless `isFinal`.
    func differences(from tree: Snapshot, isFinal: Bool) -> [String] {
        var found: [String] = []
        let isFree = { (path: String) in Model.isContested(path) && (isFinal || !isPaused) }
        for path in Set(names.keys).union(tree.entries.keys).sorted() where !isFree(path) {
            if tree.unlisted.contains(where: { path.hasPrefix($0 + "/") }) { continue }
            let entry = tree.entries[path]
            let first = difference(entry, node(path), links: stale.isEmpty ? linkCount(path) : nil)
            guard let first else { continue }
            let older = isFinal ? [] : stale[path] ?? []
            if older.contains(where: { difference(entry, $0, links: nil) == nil }) { continue }
            found.append("\(path): \(first)")
        }
        if isFinal || !isPaused { found += contestedDifferences(tree, isFinal: isFinal) }
        return found
    }

    private func contestedDifferences(_ tree: Snapshot, isFinal: Bool) -> [String] {
        let here = tree.entries.filter { Model.isContested($0.key) && $0.value.kind == .file }
        let bytes = Set(here.values.compactMap(\.bytes))
        let wanted = isFinal ? precious : precious.subtracting(remoteContents)
        let lost = wanted.subtracting(bytes).map { "a content of \($0.count) bytes is lost" }
        let wrong = here.filter { $0.value.bytes.map { !contents.contains($0) } ?? false }
        return lost + wrong.map { "\($0.key): \($0.value.size) bytes that nobody wrote" }
    }

    private func difference(_ entry: Snapshot.Entry?, _ node: Node?, links: Int?) -> String? {
        guard let entry, let node else {
            if entry == nil, node == nil { return nil }
            return entry == nil ? "missing" : "should not be there"
        }
        if entry.kind != node.kind { return "a \(entry.kind), not a \(node.kind)" }
        if let wanted = node.permissions, wanted != entry.permissions {
            return "mode \(entry.permissions), not \(wanted)"
        }
        for (name, value) in node.attributes where entry.attributes[name] != value { return "attribute \(name)" }
        guard node.kind != .directory else { return nil }
        if entry.size != node.bytes.count { return "\(entry.size) bytes, not \(node.bytes.count)" }
        if let links, entry.linkCount != links { return "\(entry.linkCount) links, not \(links)" }
        guard let bytes = entry.bytes, bytes != node.bytes else { return nil }
        let first = zip(bytes, node.bytes).enumerated().first { $0.element.0 != $0.element.1 }?.offset
        return "other bytes, from \(first ?? bytes.count) on"
    }
}
