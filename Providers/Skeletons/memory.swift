// A source that is kept in memory, and gone with its process: where a provider of your own begins.
//
//     swiftc -O -static-stdlib NAME.swift -o NAME
//     cove provider check exec:./NAME
//     cove mount exec:./NAME ~/scratch
//
// Confined, it sees no libraries but those of /usr: -static-stdlib takes Swift's along.
//
// Each case of `result` answers one call. Put your cloud's requests where this one looks into its tree, and run the check
// again and again. `cove help provider new` says where the protocol is described.

import Foundation

typealias Object = [String: Any]

/// What a call is answered with when it can't be done.
struct Failed: Error {
    var kind: String
    var message = ""
    var item: Object?
}

/// Bytes of a header: a string, or base64 for what is no UTF-8.
func bytes(_ value: Any?) -> [UInt8] {
    if let text = value as? String { return Array(text.utf8) }
    let encoded = (value as? Object)?["base64"] as? String
    return encoded.flatMap { Data(base64Encoded: $0) }.map(Array.init) ?? []
}

func value(_ bytes: [UInt8]) -> Any {
    String(validating: bytes, as: UTF8.self) ?? ["base64": Data(bytes).base64EncodedString()] as Any
}

func number(_ value: Any?) -> Int { (value as? NSNumber)?.intValue ?? 0 }

// MARK: The tree

/// A file or a directory.
final class Node {
    nonisolated(unsafe) private static var counter = 0

    let id: String
    let kind: String
    var children: [[UInt8]: Node] = [:]
    var content = Data()
    var version = ""
    /// Changes with the metadata, and with the content.
    var described = ""
    var metadata: Object = [:]

    init(_ kind: String, _ content: Data = Data(), _ metadata: Object = [:]) {
        self.kind = kind
        id = "n\(Self.next())"
        replace(content, metadata)
    }

    private static func next() -> Int {
        counter += 1
        return counter
    }

    /// Another content is another version.
    func replace(_ content: Data, _ metadata: Object) {
        self.content = content
        self.metadata = metadata
        version = "v\(Self.next())"
        described = version
    }

    func describe(_ metadata: Object) {
        self.metadata.merge(metadata) { $1 }
        described = "m\(Self.next())"
    }

    /// True for this one, and for what is somewhere below it.
    func holds(_ other: Node) -> Bool { self === other || children.values.contains { $0.holds(other) } }

    /// The path from here of the node with an id; nil where there is none.
    func path(of wanted: String) -> [UInt8]? {
        for (name, child) in children {
            if child.id == wanted { return name }
            if let below = child.path(of: wanted) { return name + [UInt8(ascii: "/")] + below }
        }
        return nil
    }

    func item(_ name: [UInt8]) -> Object {
        var item: Object = ["id": id, "name": value(name), "kind": kind, "metadata": metadata]
        if kind == "file" {
            item["size"] = content.count
            item["contentVersion"] = version
            item["metadataVersion"] = described
        }
        return item
    }
}

/// What is answered: a result, or a part of a file whose bytes go before it.
enum Answer {
    case result(Object)
    case bytes(Data, at: Int, isEnd: Bool)
}

final class Memory {
    private static let page = 500

    private let root = Node("directory")
    // Nobody tells of changes: Cove lists what it shows again and again. The anchor of another process has expired.
    private let anchor = UUID().uuidString

    func answer(_ call: String, _ parameters: Object, _ content: Data?) throws -> Answer {
        switch call {
        case "hello":
            let capabilities: Object = [
                "ranges": true, "conditionalWrites": true, "modificationTimes": true, "serverSideCopy": true,
                "stableIDs": true, "persistentIdentifiers": true, "parallelChanges": 8,
            ]
            return .result(["version": 1, "name": "memory", "capabilities": capabilities])
        case "list": return .result(try list(parameters))
        case "lookup":
            let name = bytes(parameters["name"])
            let children = try directory(parameters["directory"]).children
            guard let node = children[name] else { throw Failed(kind: "noSuchItem") }
            return .result(["item": node.item(name)])
        case "changes":
            if let known = parameters["anchor"], bytes(known) != Array(anchor.utf8) {
                throw Failed(kind: "anchorExpired")
            }
            return .result(["events": [], "anchor": anchor])
        case "fetch": return try fetch(parameters)
        case "quota": return .result([:])
        case "persistentIdentifier":
            return .result(["identifier": try find(path(parameters["item"])).id])
        case "itemForPersistentIdentifier":
            let identifier = String(decoding: bytes(parameters["identifier"]), as: UTF8.self)
            guard let path = root.path(of: identifier) else { throw Failed(kind: "noSuchItem") }
            return .result(["path": value(path)])
        case "create":
            let kind = parameters["kind"] as? String ?? ""
            guard ["file", "directory"].contains(kind) else { throw Failed(kind: "unsupported") }
            let (directory, name) = try place(parameters)
            let node = Node(kind, content ?? Data(), parameters["metadata"] as? Object ?? [:])
            directory.children[name] = node
            return .result(["item": node.item(name)])
        case "modify":
            let (_, name, node) = try wanted(parameters)
            let metadata = parameters["metadata"] as? Object ?? [:]
            if let content {
                node.replace(content, metadata)
            } else {
                node.describe(metadata)
            }
            return .result(["item": node.item(name)])
        case "move":
            let (source, former, node) = try wanted(parameters)
            let (directory, name) = try place(parameters)
            guard !node.holds(directory) else {
                throw Failed(kind: "notPermitted", message: "a folder does not go into itself")
            }
            source.children[former] = nil
            directory.children[name] = node
            return .result(["item": node.item(name)])
        case "copy":
            let (_, _, node) = try wanted(parameters)
            let (directory, name) = try place(parameters)
            let copy = Node("file", node.content, node.metadata)
            directory.children[name] = copy
            return .result(["item": copy.item(name)])
        case "delete":
            let (directory, name, node) = try wanted(parameters)
            guard node.children.isEmpty else { throw Failed(kind: "directoryNotEmpty") }
            directory.children[name] = nil
            return .result([:])
        default: throw Failed(kind: "unsupported", message: "this provider has no \(call)")
        }
    }

    // MARK: Looking

    private func find(_ path: [UInt8]) throws -> Node {
        var node = root
        for name in path.split(separator: UInt8(ascii: "/")) {
            guard let child = node.children[Array(name)] else { throw Failed(kind: "noSuchItem") }
            node = child
        }
        return node
    }

    /// Where an item is: its identifier tells, where it is given, for another one may have its path by now.
    private func path(_ reference: Any?) throws -> [UInt8] {
        let reference = reference as? Object ?? [:]
        let path = bytes(reference["path"])
        guard !path.isEmpty, let id = reference["id"] as? String else { return path }
        guard let found = root.path(of: id) else { throw Failed(kind: "noSuchItem") }
        return found
    }

    private func directory(_ reference: Any?) throws -> Node {
        let node = try find(path(reference))
        guard node.kind == "directory" else { throw Failed(kind: "noSuchItem") }
        return node
    }

    /// A page begins behind a name, in their order: what comes or goes meanwhile moves nothing out of it.
    private func list(_ parameters: Object) throws -> Object {
        let children = try directory(parameters["directory"]).children.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        let start = parameters["page"].map { Array(bytes($0).dropFirst("after:".utf8.count)) }
        let rest = children.drop { child in start.map { !$0.lexicographicallyPrecedes(child.key) } ?? false }
        var result: Object = ["items": rest.prefix(Self.page).map { $0.value.item($0.key) }]
        if rest.count > Self.page, let last = rest.prefix(Self.page).last {
            result["next"] = value(Array("after:".utf8) + last.key)
        }
        return result
    }

    private func fetch(_ parameters: Object) throws -> Answer {
        let node = try find(path(parameters["item"]))
        guard bytes(parameters["version"]) == Array(node.version.utf8) else {
            throw Failed(kind: "versionNoLongerAvailable")
        }
        let (start, end) = (number(parameters["start"]), number(parameters["end"]))
        let last = min(end, node.content.count)
        return .bytes(start < last ? node.content.subdata(in: start..<last) : Data(), at: start, isEnd: end > last)
    }

    // MARK: Changing

    /// The directory and the name that something is to get, which must be free.
    private func place(_ parameters: Object) throws -> (Node, [UInt8]) {
        let (directory, name) = (try directory(parameters["directory"]), bytes(parameters["name"]))
        let text = String(decoding: name, as: UTF8.self)
        // What makes room for a moment is listed, found and moved as anything else.
        if text == ".cove" || text.hasPrefix(".cove-") && !text.hasPrefix(".cove-moving-") {
            throw Failed(kind: "notPermitted", message: "Cove keeps this name for itself")
        }
        if let occupant = directory.children[name] { throw Failed(kind: "filenameCollision", item: occupant.item(name)) }
        return (directory, name)
    }

    /// The directory and the name of what is to be changed, if that is the version that the caller has seen.
    private func wanted(_ parameters: Object) throws -> (Node, [UInt8], Node) {
        let item = parameters["item"] as? Object ?? [:]
        let names = try path(item).split(separator: UInt8(ascii: "/")).map(Array.init)
        guard let name = names.last else { throw Failed(kind: "noSuchItem") }
        let directory = try find(Array(names.dropLast().joined(separator: [UInt8(ascii: "/")])))
        let mustBeFile = item["isFile"] as? Bool ?? false
        guard let node = directory.children[name], !mustBeFile || node.kind == "file" else {
            throw Failed(kind: "noSuchItem")
        }
        if let version = parameters["version"].map({ bytes($0) }) {
            let isWanted = version.isEmpty ? node.kind == "directory" : version == Array(node.version.utf8)
            guard isWanted else { throw Failed(kind: "conflict", item: node.item(name)) }
        }
        return (directory, name, node)
    }
}

// MARK: The protocol

/// Answers calls one after the other; the bytes of files go to and fro meanwhile, as the other side takes them.
final class Server {
    private static let window = 4 << 20
    private static let piece = 256 << 10

    private struct Outgoing {
        var data: Data
        var offset: Int
        var room = Server.window
        let isEnd: Bool
    }

    private let memory = Memory()
    private let input = FileHandle.standardInput
    private let output: FileHandle
    /// Calls whose content arrives, and those whose bytes leave.
    private var incoming: [Int: (call: String, parameters: Object, content: Data)] = [:]
    private var outgoing: [Int: Outgoing] = [:]

    init() {
        // What is printed by accident is no message.
        output = FileHandle(fileDescriptor: dup(1))
        dup2(2, 1)
    }

    func run() throws {
        while let (header, body) = try receive(), header["call"] as? String != "stop" { try take(header, body) }
    }

    private func receive() throws -> (Object, Data)? {
        guard let lengths = try read(8) else { return nil }
        let sizes = [0, 4].map { start in lengths[start..<start + 4].reduce(0) { $0 << 8 | Int($1) } }
        guard let text = try read(sizes[0]), let body = try read(sizes[1]) else { return nil }
        return (try JSONSerialization.jsonObject(with: text) as? Object ?? [:], body)
    }

    /// So many bytes; nil once Cove has ended.
    private func read(_ count: Int) throws -> Data? {
        var data = Data()
        while data.count < count {
            guard let more = try input.read(upToCount: count - data.count), !more.isEmpty else { return nil }
            data += more
        }
        return data
    }

    private func send(_ header: Object, _ body: Data = Data()) throws {
        let text = try JSONSerialization.data(withJSONObject: header)
        let lengths = [text.count, body.count].flatMap { size in [24, 16, 8, 0].map { UInt8(size >> $0 & 0xFF) } }
        try output.write(contentsOf: Data(lengths) + text + body)
    }

    private func take(_ header: Object, _ body: Data) throws {
        if let cancelled = header["cancel"] {
            let id = number(cancelled)
            let isOpen = incoming.removeValue(forKey: id) != nil || outgoing.removeValue(forKey: id) != nil
            if isOpen { try send(["id": id, "error": ["kind": "cancelled", "message": ""]]) }
            return
        }
        guard header["id"] != nil else { return }
        let id = number(header["id"])
        if let call = header["call"] as? String {
            let parameters = header["parameters"] as? Object ?? [:]
            let hasContent = ["create", "modify"].contains(call) && parameters["size"] != nil
            if hasContent { incoming[id] = (call, parameters, Data()) } else { try answer(id, call, parameters, nil) }
        } else if let credit = header["credit"] {
            outgoing[id]?.room += number(credit)
            try pump(id)
        } else if header["end"] != nil, let (call, parameters, content) = incoming.removeValue(forKey: id) {
            try answer(id, call, parameters, content)
        } else if incoming[id] != nil, !body.isEmpty {
            incoming[id]?.content.append(body)
            try send(["id": id, "credit": body.count])
        }
    }

    private func answer(_ id: Int, _ call: String, _ parameters: Object, _ content: Data?) throws {
        do {
            if let content, content.count != number(parameters["size"]) {
                throw Failed(kind: "failed", message: "the content is not as long as it was said to be")
            }
            switch try memory.answer(call, parameters, content) {
            case .result(let result): try send(["id": id, "result": result])
            case .bytes(let data, let offset, let isEnd):
                outgoing[id] = Outgoing(data: data, offset: offset, isEnd: isEnd)
                try pump(id)
            }
        } catch let failure as Failed {
            var error: Object = ["kind": failure.kind, "message": failure.message]
            error["item"] = failure.item
            try send(["id": id, "error": error])
        }
    }

    /// Sends as much of a file as Cove takes now.
    private func pump(_ id: Int) throws {
        guard var left = outgoing[id] else { return }
        while left.room > 0, !left.data.isEmpty {
            let piece = Data(left.data.prefix(min(Self.piece, left.room)))
            try send(["id": id, "offset": left.offset], piece)
            left.data = left.data.dropFirst(piece.count)
            left.offset += piece.count
            left.room -= piece.count
        }
        outgoing[id] = left.data.isEmpty ? nil : left
        if left.data.isEmpty { try send(["id": id, "result": left.isEnd ? ["atEnd": true] as Object : [:]]) }
    }
}

try Server().run()
