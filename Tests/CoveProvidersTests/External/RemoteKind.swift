import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation

/// Remotes of rclone's, which `cove-rclone` serves: each kind has something that others lack.
enum RemoteKind: String, CaseIterable {
    case local, alias, crypt, webdav

    static let all = allCases.map { kind in
        SourceKind(testDescription: "a remote: \(kind)", keepsFractions: kind != .webdav) { try kind.open() }
    }

    private static let server = Result { try TestServer.apache() }

    /// Makes an empty source.
    ///
    /// What is put there, and what is there, is asked of rclone, which alone knows a crypt's names.
    private func open() throws -> TestSource {
        let folder = try TemporaryDirectory("remote")
        let (setting, owner) = try setting(in: folder)
        let file = folder.appending("rclone.conf")
        try put("[remote]\n\(setting)\n", file)
        let rclone = "rclone --config '\(file)'"
        let place = "remote:" + (self == .local ? folder.appending("files") : "")
        let program = FileManager.default.currentDirectoryPath + "/Providers/cove-rclone"
        return TestSource(
            provider: {
                let script = folder.appending("serve-\(UUID().uuidString)")
                try put("#!/bin/sh\nRCLONE_CONFIG='\(file)' exec '\(program)'\n", script)
                try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: script)
                let remote = place.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? place
                return try ProviderFactory.make(source: "exec:\(script)?remote=\(remote)")
            },
            put: { text, path in
                try put(text, folder.appending("put"))
                try shell("\(rclone) rcat '\(place)\(place.hasSuffix(":") ? "" : "/")\(path)' < put", in: folder.path)
            },
            names: {
                try shell("\(rclone) lsf '\(place)' > names", in: folder.path)
                withExtendedLifetime(owner) {}
                return try contents(folder.appending("names")).split(separator: "\n").map { name in
                    String(name.hasSuffix("/") ? name.dropLast() : name)
                }.sorted()
            }
        )
    }

    /// The section of rclone's configuration, and what has to live as long as it is used.
    private func setting(in folder: TemporaryDirectory) throws -> (String, TestServer?) {
        let files = folder.appending("files")
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        switch self {
        case .local: return ("type = local", nil)
        case .alias: return ("type = alias\nremote = \(files)", nil)
        case .crypt:
            let secret = try obscured("secret")
            return ("type = crypt\nremote = \(files)\npassword = \(secret)", nil)
        case .webdav:
            let server = try Self.server.get()
            let name = UUID().uuidString
            try server.makeCollection(name)
            let password = try obscured(TestServer.password)
            let address = "http://127.0.0.1:\(server.port)/\(name)"
            return (
                "type = webdav\nurl = \(address)\nvendor = other\nuser = \(TestServer.user)\npass = \(password)", server
            )
        }
    }

    private func obscured(_ password: String) throws -> String {
        try Command.run("rclone", ["obscure", password]).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
