import Foundation

extension ScriptedServer {
    /// An answer taken apart, so that it can be changed.
    public struct Reply: Sendable {
        /// The first line.
        public var statusLine: String
        /// The other lines of the head, as they are sent.
        public var headers: [String]
        /// What comes after them.
        public var body: [UInt8]

        /// Takes an answer apart; nil where its head has no end.
        public init?(_ bytes: [UInt8]) {
            let mark: [UInt8] = [13, 10, 13, 10]
            guard let end = bytes.indices.dropLast(3).first(where: { bytes[$0..<$0 + 4].elementsEqual(mark) }) else {
                return nil
            }
            var lines = String(decoding: bytes[..<end], as: UTF8.self).components(separatedBy: "\r\n")
            statusLine = lines.removeFirst()
            headers = lines
            body = Array(bytes[(end + 4)...])
        }

        /// The answer put together as it is, whatever its `Content-Length` says.
        public var bytes: [UInt8] {
            Array(([statusLine] + headers + ["", ""]).joined(separator: "\r\n").utf8) + body
        }

        /// Removes the lines of a header, and adds one where there is a value.
        public mutating func set(_ name: String, _ value: String?) {
            headers.removeAll { $0.lowercased().hasPrefix(name.lowercased() + ":") }
            if let value { headers.append("\(name): \(value)") }
        }

        /// Changes the body as a text, and tells its length.
        public mutating func rewriteText(_ change: (String) -> String) {
            body = Array(change(String(decoding: body, as: UTF8.self)).utf8)
            set("Content-Length", "\(body.count)")
        }
    }
}
