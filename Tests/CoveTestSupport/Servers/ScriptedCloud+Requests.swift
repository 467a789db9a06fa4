import Foundation

/// The answers.
extension ScriptedCloud.State {
    private typealias Answer = ScriptedServer.Answer

    mutating func reply(to request: ScriptedServer.Request) -> ScriptedServer.Answer {
        let path = Self.decoded(request.target)
        let root = "/remote.php/dav/"
        guard path.hasPrefix(root) else { return ScriptedServer.answer(404) }
        var names = path.dropFirst(root.count).split(separator: "/").map(String.init)
        guard names.count >= 2, names[1] == TestServer.user else { return ScriptedServer.answer(404) }
        let collection = names[0]
        names.removeFirst(2)
        switch collection {
        case "files": return files(request, ScriptedCloud.key(rename(names.joined(separator: "/"))))
        case "uploads": return uploads(request, names)
        case "versions": return versions(request, names)
        default: return ScriptedServer.answer(404)
        }
    }

    private static func decoded(_ target: String) -> String { target.removingPercentEncoding ?? target }

    private static func header(_ name: String, _ request: ScriptedServer.Request) -> String? {
        request.lines.first { $0.lowercased().hasPrefix(name + ": ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    /// The path below the files that `Destination` names.
    private func destination(_ request: ScriptedServer.Request) -> String? {
        guard let value = Self.header("destination", request), let start = value.range(of: ScriptedCloud.home) else {
            return nil
        }
        let path = Self.decoded(String(value[start.upperBound...])).split(separator: "/").joined(separator: "/")
        return ScriptedCloud.key(rename(path))
    }

    private mutating func files(_ request: ScriptedServer.Request, _ path: String) -> ScriptedServer.Answer {
        let node = files[path]
        switch request.method {
        case "PROPFIND":
            guard let node else { return ScriptedServer.answer(404) }
            // Only who asks is told with whom something is shared.
            let tells = String(decoding: request.body, as: UTF8.self).contains("<oc:permissions/>")
            var text = Self.resource(ScriptedCloud.home + "/" + path, node, tellsSharing: tells)
            if Self.header("depth", request) == "1" {
                for name in children(of: path) {
                    let below = path.isEmpty ? name : "\(path)/\(name)"
                    guard let child = files[below] else { continue }
                    text += Self.resource(ScriptedCloud.home + "/" + below, child, tellsSharing: tells)
                }
            }
            return Self.multistatus(text)
        case "GET":
            guard let node, !node.isFolder else { return ScriptedServer.answer(404) }
            return get(request, path, node)
        case "PUT":
            if let refusal = refusal(request, node, parent: Self.parent(of: path)) { return refusal }
            let new = store(
                path,
                request.body,
                modified: Self.header("x-oc-mtime", request).flatMap { Int64($0) } ?? Int64(time(nil)),
                checksum: Self.header("oc-checksum", request)
            )
            let told = ["ETag: \"\(new.tag)\"", "OC-ETag: \"\(new.tag)\"", "OC-FileId: \(new.id)ocscripted"]
            return ScriptedServer.answer(node == nil ? 201 : 204, told)
        case "MKCOL":
            if node != nil { return ScriptedServer.answer(405) }
            if files[Self.parent(of: path)]?.isFolder != true { return ScriptedServer.answer(409) }
            let (tag, id) = (next(), next())
            files[path] = ScriptedCloud.Node(isFolder: true, modified: Int64(time(nil)), tag: tag, id: id)
            touch(above: path)
            return ScriptedServer.answer(201)
        case "DELETE":
            guard node != nil else { return ScriptedServer.answer(404) }
            if let refusal = refusal(request, node, parent: "") { return refusal }
            remove(path)
            return ScriptedServer.answer(204)
        case "PROPPATCH":
            let parts = String(decoding: request.body, as: UTF8.self).components(separatedBy: "lastmodified>")
            guard node != nil, parts.count == 3, let date = Int64(parts[1].prefix { $0.isNumber }) else {
                return ScriptedServer.answer(404)
            }
            if let refusal = refusal(request, node, parent: "") { return refusal }
            files[path]?.modified = date
            return Self.multistatus("")
        case "MOVE", "COPY":
            guard node != nil, let target = destination(request) else { return ScriptedServer.answer(404) }
            if let refusal = self.refusal(request, target) { return refusal }
            let isFree = files[target] == nil
            if !isFree { remove(target) }
            copy(path, to: target, isMove: request.method == "MOVE")
            return ScriptedServer.answer(isFree ? 201 : 204)
        default: return ScriptedServer.answer(501)
        }
    }

    private func refusal(
        _ request: ScriptedServer.Request,
        _ node: ScriptedCloud.Node?,
        parent: String
    ) -> ScriptedServer.Answer? {
        if Self.header("if-none-match", request) == "*", node != nil { return ScriptedServer.answer(412) }
        if let tag = Self.header("if-match", request), node.map({ tag != "\"\($0.tag)\"" }) ?? true {
            return ScriptedServer.answer(412)
        }
        return files[parent]?.isFolder == true ? nil : ScriptedServer.answer(409)
    }

    /// What forbids that something is moved to a place.
    private func refusal(_ request: ScriptedServer.Request, _ target: String) -> ScriptedServer.Answer? {
        guard files[Self.parent(of: target)]?.isFolder == true else { return ScriptedServer.answer(409) }
        let there = files[target]
        if Self.header("overwrite", request) == "F", there != nil { return ScriptedServer.answer(412) }
        guard let condition = Self.header("if", request) else { return nil }
        guard let there, condition.hasSuffix("([\"\(there.tag)\"])") else { return ScriptedServer.answer(412) }
        return nil
    }

    private func get(
        _ request: ScriptedServer.Request,
        _ path: String,
        _ node: ScriptedCloud.Node
    ) -> ScriptedServer.Answer {
        var headers = ["ETag: \"\(node.tag)\"", "Last-Modified: \(Self.date(node.modified))"]
        if let checksum = node.checksum { headers.append("OC-Checksum: \(checksum)") }
        return Self.content(request, damage(path, node.bytes), headers)
    }

    private static func content(
        _ request: ScriptedServer.Request,
        _ bytes: [UInt8],
        _ headers: [String]
    ) -> ScriptedServer.Answer {
        var (part, status, headers) = (bytes[...], 200, headers)
        if let ends = header("range", request)?.dropFirst("bytes=".count).split(separator: "-").map({ Int($0) ?? 0 }),
            ends.count == 2
        {
            guard ends[0] < bytes.count else { return ScriptedServer.answer(416) }
            part = bytes[ends[0]..<min(bytes.count, ends[1] + 1)]
            status = 206
            headers.append("Content-Range: bytes \(part.startIndex)-\(part.endIndex - 1)/\(bytes.count)")
        }
        let lines =
            ["HTTP/1.1 \(status) Told", "Content-Length: \(part.count)", "Connection: close"] + headers + ["", ""]
        return .bytes(Array(lines.joined(separator: "\r\n").utf8) + part)
    }

    // MARK: uploads and versions

    private mutating func uploads(_ request: ScriptedServer.Request, _ names: [String]) -> ScriptedServer.Answer {
        let folder = "/remote.php/dav/uploads/\(TestServer.user)/"
        guard let name = names.first else {
            return request.method == "PROPFIND" ? Self.multistatus(Self.folder(folder)) : ScriptedServer.answer(405)
        }
        switch (request.method, names.count) {
        case ("MKCOL", 1):
            if uploads[name] != nil { return ScriptedServer.answer(405) }
            if destination(request) == nil { return ScriptedServer.answer(400) }
            uploads[name] = [:]
            return ScriptedServer.answer(201)
        case ("PROPFIND", 1):
            guard let chunks = uploads[name] else { return ScriptedServer.answer(404) }
            let below = chunks.map { chunk in
                let node = ScriptedCloud.Node(
                    isFolder: false,
                    bytes: chunk.value,
                    modified: 1_700_000_000,
                    tag: 1,
                    id: 1
                )
                return Self.resource("\(folder)\(name)/\(chunk.key)", node)
            }
            return Self.multistatus(Self.folder("\(folder)\(name)/") + below.joined())
        case ("DELETE", 1):
            return ScriptedServer.answer(uploads.removeValue(forKey: name) == nil ? 404 : 204)
        case ("PUT", 2):
            guard uploads[name] != nil else { return ScriptedServer.answer(404) }
            guard let number = Int(names[1]), (1...10_000).contains(number), destination(request) != nil else {
                return ScriptedServer.answer(400)
            }
            uploads[name]?[names[1]] = request.body
            return ScriptedServer.answer(201)
        case ("MOVE", 2) where names[1] == ".file":
            guard let chunks = uploads[name], let target = destination(request) else {
                return ScriptedServer.answer(404)
            }
            if let refusal = refusal(request, target) { return refusal }
            let bytes = chunks.sorted { $0.key < $1.key }.flatMap(\.value)
            guard Self.header("oc-total-length", request) == "\(bytes.count)" else { return ScriptedServer.answer(400) }
            let isFree = files[target] == nil
            let node = store(
                target,
                bytes,
                modified: Self.header("x-oc-mtime", request).flatMap { Int64($0) } ?? Int64(time(nil)),
                checksum: Self.header("oc-checksum", request)
            )
            uploads[name] = nil
            return ScriptedServer.answer(isFree ? 201 : 204, ["OC-ETag: \"\(node.tag)\""])
        default: return ScriptedServer.answer(405)
        }
    }

    private func versions(_ request: ScriptedServer.Request, _ names: [String]) -> ScriptedServer.Answer {
        let folder = "/remote.php/dav/versions/\(TestServer.user)/"
        guard names.first == "versions" else { return ScriptedServer.answer(404) }
        if names.count == 1 { return Self.multistatus(Self.folder(folder + "versions/")) }
        guard let id = Int(names[1]) else { return ScriptedServer.answer(404) }
        let kept = versions[id] ?? []
        if names.count == 2 {
            let below = kept.map { version in
                let node = ScriptedCloud.Node(
                    isFolder: false,
                    bytes: version.bytes,
                    modified: version.revision,
                    tag: 1,
                    id: id
                )
                return Self.resource("\(folder)versions/\(id)/\(version.revision)", node)
            }
            return Self.multistatus(Self.folder("\(folder)versions/\(id)/") + below.joined())
        }
        guard let version = kept.last(where: { "\($0.revision)" == names[2] }) else {
            return ScriptedServer.answer(404)
        }
        return Self.content(request, version.bytes, [])
    }

    // MARK: XML

    private static func multistatus(_ text: String) -> ScriptedServer.Answer {
        let start = "<?xml version=\"1.0\"?><d:multistatus xmlns:d=\"DAV:\" xmlns:oc=\"http://owncloud.org/ns\">"
        return ScriptedServer.answer(207, ["Content-Type: application/xml"], start + text + "</d:multistatus>")
    }

    private static func folder(_ path: String) -> String {
        resource(path, ScriptedCloud.Node(isFolder: true, modified: 1_700_000_000, tag: 1, id: 1))
    }

    private static func resource(_ path: String, _ node: ScriptedCloud.Node, tellsSharing: Bool = false) -> String {
        var properties =
            "<d:getetag>\"\(node.tag)\"</d:getetag><d:getlastmodified>\(date(node.modified))</d:getlastmodified>"
        if tellsSharing { properties += node.sharing }
        properties += "<oc:id>\(node.id)ocscripted</oc:id><oc:fileid>\(node.id)</oc:fileid>"
        if node.isFolder {
            properties += "<d:resourcetype><d:collection/></d:resourcetype>"
        } else {
            properties += "<d:resourcetype/><d:getcontentlength>\(node.bytes.count)</d:getcontentlength>"
            if let sum = node.checksum {
                properties += "<oc:checksums><oc:checksum>\(sum)</oc:checksum></oc:checksums>"
            }
        }
        return
            "<d:response><d:href>\(path)\(node.isFolder && !path.hasSuffix("/") ? "/" : "")</d:href><d:propstat><d:prop>"
            + properties + "</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    }

    private static func date(_ seconds: Int64) -> String {
        var (moment, fields) = (time_t(seconds), tm())
        gmtime_r(&moment, &fields)
        var text = [CChar](repeating: 0, count: 64)
        let count = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &fields)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
