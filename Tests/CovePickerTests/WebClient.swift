import CoveCore
import CoveTestSupport
import Foundation
import Glibc

@testable import CovePicker

/// What came back of a request.
struct WebReply {
    var status = 0
    var fields: [String: String] = [:]
    var body: [UInt8] = []

    var text: String { String(decoding: body, as: UTF8.self) }
    func json() throws -> JSONValue { try JSONValue(parsing: body) }
}

/// A browser that sends what it is told to.
struct WebClient {
    let port: UInt16
    var cookie: String?
    var secret: String?

    /// Comes in by the token, and reads the page.
    static func entered(_ guardian: WebGuard, port: UInt16) throws -> WebClient {
        var client = WebClient(port: port)
        let entrance = try client.get("/?token=\(guardian.token)")
        client.cookie = entrance.fields["set-cookie"].map { String($0.prefix { $0 != ";" }) }
        let page = try client.get("/")
        client.secret = page.text.firstMatch(of: /<meta name="call" content="([0-9a-f]+)">/).map { String($0.1) }
        return client
    }

    /// Sends a request with the fields that a browser would send, but for those that are given.
    func request(_ method: String, _ path: String, _ fields: [String: String?] = [:], body: String? = nil) throws
        -> WebReply
    {
        var all: [String: String?] = ["Host": "127.0.0.1:\(port)"]
        if let cookie { all["Cookie"] = cookie }
        if let secret, path.hasPrefix("/call/") { all["X-Cove-Call"] = secret }
        if let body {
            all["Content-Type"] = "application/json"
            all["Content-Length"] = "\(body.utf8.count)"
            all["Origin"] = "http://127.0.0.1:\(port)"
        }
        all.merge(fields) { $1 }
        let lines = all.compactMap { name, value in value.map { "\(name): \($0)\r\n" } }
        return try send(Array("\(method) \(path) HTTP/1.1\r\n\(lines.joined())\r\n\(body ?? "")".utf8))
    }

    func get(_ path: String, _ fields: [String: String?] = [:]) throws -> WebReply { try request("GET", path, fields) }

    func post(_ path: String, _ body: String, _ fields: [String: String?] = [:]) throws -> WebReply {
        try request("POST", path, fields, body: body)
    }

    /// Sends bytes and reads what comes until the end.
    func send(_ bytes: [UInt8]) throws -> WebReply {
        let connection = try connect()
        defer { System.close(connection) }
        _ = try? bytes.withUnsafeBytes { try System.writeAll(connection, $0) }
        return try Self.read(connection)
    }

    /// A connection on which nothing was sent yet.
    func connect() throws -> Int32 {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let status = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw Errno.current }
        return connection
    }

    static func read(_ connection: Int32) throws -> WebReply {
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            var entry = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, 30_000) == 1 else { throw Errno.timedOut }
            let count = recv(connection, &block, block.count, 0)
            guard count > 0 else { break }
            bytes += block.prefix(count)
        }
        return reply(bytes)
    }

    private static func reply(_ bytes: [UInt8]) -> WebReply {
        var reply = WebReply()
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return reply }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        reply.status = Int(lines[0].split(separator: " ")[1]) ?? 0
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            reply.fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        reply.body = Array(bytes[end.upperBound...])
        return reply
    }
}
