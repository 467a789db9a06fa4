internal import CoveCore
internal import Glibc

/// Logins as `~/.netrc` has them (netrc(5)).
enum Netrc {
    /// The login for a host, of a user where one is named; nil where there is none.
    static func login(host: String, user: String?) -> Credentials? {
        guard let home = getenv("HOME").map({ String(cString: $0) }) else { return nil }
        return login(host: host, user: user, in: text(of: home + "/.netrc"))
    }

    static func login(host: String, user: String?, in text: [UInt8]) -> Credentials? {
        var words = Words(rest: text[...])
        var entry: (login: String?, password: String?)?
        func found() -> Credentials? {
            guard let password = entry?.password, let name = entry?.login ?? user, user == nil || user == name else {
                return nil
            }
            return Credentials(user: name, password: password)
        }
        while let word = words.next() {
            switch word {
            case "machine", "default":
                if let login = found() { return login }
                let isMeant = word == "default" || words.next()?.lowercased() == host.lowercased()
                entry = isMeant ? (nil, nil) : nil
            case "login": entry?.login = words.next()
            case "password": entry?.password = words.next()
            case "account": _ = words.next()
            case "macdef": words.skipMacro()
            default: break
            }
        }
        return found()
    }

    /// The words of a file; one in double quotes may hold spaces.
    private struct Words {
        var rest: ArraySlice<UInt8>
        private var isLineStart = true

        init(rest: ArraySlice<UInt8>) { self.rest = rest }

        mutating func next() -> String? {
            while let byte = rest.first, byte <= 0x20 || isLineStart && byte == 0x23 {
                // The first word of a line may begin a remark.
                if byte == 0x23 { rest = rest.drop { $0 != 0x0A } } else { rest = rest.dropFirst() }
                if byte == 0x0A { isLineStart = true }
            }
            isLineStart = false
            guard let first = rest.first else { return nil }
            var bytes: [UInt8] = []
            let isQuoted = first == 0x22
            if isQuoted { rest = rest.dropFirst() }
            while let byte = rest.first, isQuoted ? byte != 0x22 : byte > 0x20 {
                rest = rest.dropFirst()
                bytes.append(isQuoted && byte == 0x5C ? rest.popFirst() ?? byte : byte)
            }
            if isQuoted { rest = rest.dropFirst() }
            return String(decoding: bytes, as: UTF8.self)
        }

        /// A macro ends with an empty line.
        mutating func skipMacro() {
            while let end = rest.firstIndex(of: 0x0A) {
                rest = rest[(end + 1)...]
                if rest.first == 0x0A { return }
            }
            rest = []
        }
    }

    private static func text(of path: String) -> [UInt8] {
        guard let file = try? System.open(path, O_RDONLY | O_NONBLOCK) else { return [] }
        defer { System.close(file) }
        var bytes = [UInt8](repeating: 0, count: 256 << 10)
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        return Array(bytes[..<count])
    }
}
