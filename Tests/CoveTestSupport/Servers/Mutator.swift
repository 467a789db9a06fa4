import Foundation
import Synchronization

/// Changes answers of a server at random, by a seed: status, headers, dates, sizes, tags, listings and bodies.
public final class Mutator: Sendable {
    private let state: Mutex<State>

    private struct State {
        var random: SeededGenerator
        /// One answer in so many is changed now; 0 at the end.
        var rate: Int
        let worst: Int
        var seen = 0
        var changed = 0
    }

    /// One answer in so many is changed at the worst of times; there are better ones, in which a client gets further.
    public init(seed: UInt64, oneIn rate: Int = 3) {
        state = Mutex(State(random: SeededGenerator(seed: seed), rate: rate, worst: rate))
    }

    /// How many answers went through, and how many were changed.
    public var counts: (seen: Int, changed: Int) { state.withLock { ($0.seen, $0.changed) } }

    /// From here on everything is as it is.
    public func end() { state.withLock { $0.rate = 0 } }

    /// True where the answer to a request is to be something else altogether, and the request is not carried out.
    public func refuses() -> ScriptedServer.Answer? {
        state.withLock { state in
            guard state.rate > 0 else { return nil }
            if state.random.oneIn(30) { state.rate = state.worst * Mutator.pick([1, 5, 20], &state.random) }
            guard state.random.oneIn(state.rate * 3) else { return nil }
            state.seen += 1
            state.changed += 1
            if state.random.oneIn(6) { return .hangUp }
            if state.random.oneIn(10) { return .bytes(Self.garbage(&state.random)) }
            let status = Self.pick(Self.statuses, &state.random)
            let name = Self.pick(Self.headers, &state.random)
            let value = Self.value(of: name, &state.random)
            return ScriptedServer.answer(status, ["\(name): \(value)"], Self.pick(Self.pages, &state.random))
        }
    }

    /// Changes an answer, perhaps.
    public func change(_ reply: inout ScriptedServer.Reply) {
        var next = reply
        state.withLock { state in
            state.seen += 1
            guard state.rate > 0, state.random.oneIn(state.rate) else { return }
            state.changed += 1
            repeat { Self.change(&next, &state.random) } while state.random.oneIn(3)
        }
        reply = next
    }

    private static func pick<T>(_ list: [T], _ random: inout SeededGenerator) -> T {
        list[Int.random(in: 0..<list.count, using: &random)]
    }

    private static func change(_ reply: inout ScriptedServer.Reply, _ random: inout SeededGenerator) {
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
            let status = pick(statuses.map { "\($0)" } + ["0", "-1", "99999999999999999999", "2O0", ""], &random)
            reply.statusLine = pick(["HTTP/1.1 \(status) x", "HTTP/1.1 \(status)", "HTTP/9.9 \(status) x"], &random)
        case 1, 2:
            let name = pick(headers, &random)
            reply.set(name, random.oneIn(4) ? nil : value(of: name, &random))
        case 3:
            if !reply.headers.isEmpty {
                reply.headers.remove(at: Int.random(in: 0..<reply.headers.count, using: &random))
            }
        case 4:
            let count = pick([1, 100, 5000], &random)
            for number in 0..<count { reply.headers.append("X-More-\(number): \(String(repeating: "v", count: 20))") }
        case 5: reply.body.removeLast(Int.random(in: 0...reply.body.count, using: &random))
        case 6: random.damage(&reply.body)
        default:
            let seed = random.next()
            reply.rewriteText { text in
                var random = SeededGenerator(seed: seed)
                return changed(text, &random)
            }
        }
    }

    /// A listing with something else in one of its elements, without some, or with more.
    private static func changed(_ text: String, _ random: inout SeededGenerator) -> String {
        let element = pick(elements, &random)
        let parts = text.components(separatedBy: "<\(element)>")
        guard parts.count > 1 else { return random.oneIn(8) ? text + pick(pages, &random) : text }
        let chosen = Int.random(in: 1..<parts.count, using: &random)
        var result = parts[0]
        for (number, part) in parts.enumerated().dropFirst() {
            result += "<\(element)>"
            guard number == chosen, let end = part.range(of: "</\(element)>") else {
                result += part
                continue
            }
            let inner = String(part[..<end.lowerBound])
            let other: String
            switch element {
            case "d:href", "Key", "Prefix", "NextContinuationToken": other = name(inner, &random)
            case "d:getlastmodified", "LastModified": other = pick(HostileWords.dates, &random)
            case "d:response", "Contents": other = random.oneIn(2) ? "" : inner + inner
            default: other = pick(HostileWords.numbers + [inner + inner, "", pick(pages, &random)], &random)
            }
            result += other + part[end.lowerBound...]
        }
        return result
    }

    private static func name(_ inner: String, _ random: inout SeededGenerator) -> String {
        let base = inner.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        let name = pick(HostileWords.names, &random)
        return random.oneIn(4) ? name : "\(base)/\(name)"
    }

    private static func value(of name: String, _ random: inout SeededGenerator) -> String {
        switch name {
        case "Date", "Last-Modified": pick(HostileWords.dates, &random)
        case "ETag", "OC-ETag":
            pick(
                ["\"\"", "W/\"x\"", "x", "\"", String(repeating: "t", count: 3000), "\"a\"b\"", "\"\u{1}\"", "\"1\""],
                &random
            )
        case "Location": pick(["/", "http://127.0.0.1:1/", "//", "javascript:x", "http://[::", ""], &random)
        case "Content-Range":
            pick(["bytes 0-0/1", "bytes 5-1/2", "bytes */*", "x", "bytes 0-9223372036854775807/*"], &random)
        case "Content-Encoding": pick(["gzip", "br", "x"], &random)
        case "Transfer-Encoding": pick(["chunked", "gzip", "x"], &random)
        case "Connection": pick(["close", "keep-alive", "upgrade"], &random)
        case "WWW-Authenticate": pick(["Basic realm=x", "Digest", "Digest nonce=\"\", qop=x", "Negotiate"], &random)
        default: pick(HostileWords.numbers + HostileWords.dates, &random)
        }
    }

    private static func garbage(_ random: inout SeededGenerator) -> [UInt8] {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: random.bytes(Int.random(in: 0...5000, using: &random))
        case 1: Array("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nfew".utf8)
        case 2: Array("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n".utf8)
        default: Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx".utf8)
        }
    }

    /// None that promises what was not done.
    private static let statuses = [
        300, 301, 302, 304, 307, 400, 401, 403, 404, 405, 409, 410, 411, 412, 413, 415, 416,
        422, 423, 424, 429, 431, 500, 501, 502, 503, 504, 507, 508, 511, 599,
    ]
    private static let headers = [
        "ETag", "OC-ETag", "Last-Modified", "Date", "Retry-After", "Content-Length", "Content-Range",
        "Content-Encoding",
        "Transfer-Encoding", "Content-Type", "Location", "Connection", "WWW-Authenticate", "OC-FileId", "Server",
        "x-amz-version-id", "x-amz-bucket-region", "x-amz-meta-mtime", "x-amz-meta-mode", "x-amz-checksum-sha256",
        "Age",
    ]
    private static let elements = [
        "d:href", "d:getetag", "d:getlastmodified", "d:getcontentlength", "d:status", "d:resourcetype", "oc:id",
        "oc:fileid", "oc:checksum", "d:response", "Key", "Size", "ETag", "LastModified", "IsTruncated",
        "NextContinuationToken", "KeyCount", "Prefix", "Contents", "Code", "UploadId",
    ]
    private static let pages = [
        "", "<html>Login</html>", "<?xml version=\"1.0\"?><a><b></a>", String(repeating: "<a>", count: 3000),
        "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><x>&b;</x>", "\u{0}", "{}",
    ]
}
