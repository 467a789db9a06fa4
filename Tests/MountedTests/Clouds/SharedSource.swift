import CoveTestSupport
import Foundation
import Testing

/// A source that devices share, where others can see and put what they like; on a server that many such sources share.
struct SharedSource: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// False where names with a dot are listed to nobody.
    var showsDotNames = true
    /// A script that makes a file `$name` there.
    var plant = "mkdir -p \"$(dirname \"$files/$name\")\"; echo text > \"$files/$name\""
    /// The environment of who reaches the server of it on a port.
    var variables: @Sendable (UInt16) throws -> [String: String] = { _ in [:] }
    /// What keeps it, its address, and the folder with its items, or where they are served.
    let start: @Sendable () throws -> (owner: AnyObject, address: String, files: String)

    static let folder = SharedSource(testDescription: "a folder") {
        let folder = try TemporaryDirectory("shared")
        let files = folder.appending("files")
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        return (folder, "dir://\(files)", files)
    }

    /// A folder that a program of its own serves, by the provider protocol.
    static let program = SharedSource(testDescription: "a program") {
        guard let cove = ProcessInfo.processInfo.environment["COVE_BINARY"] else {
            throw CommandFailure("COVE_BINARY is not set; run mount-scripts/test")
        }
        let folder = try TemporaryDirectory("shared")
        let (files, script) = (folder.appending("files"), folder.appending("serve"))
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        try "#!/bin/sh\nexec '\(cove)' provider serve 'dir://\(files)'\n".write(
            toFile: script,
            atomically: false,
            encoding: .utf8
        )
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: script)
        return (folder, "exec:\(script)", files)
    }

    /// A folder that rclone serves as one of its remotes, which knows no conditions.
    static let remote = SharedSource(testDescription: "a remote of rclone's") {
        let folder = try TemporaryDirectory("shared")
        let files = folder.appending("files")
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        return (folder, "rclone::local:\(files)", files)
    }

    /// A folder of a server that is a remote of rclone's.
    static let serverRemote = SharedSource(
        testDescription: "a server that is a remote of rclone's",
        variables: { port in
            let password = try Command.run("rclone", ["obscure", TestServer.password]).output
            return [
                "RCLONE_CONFIG_CLOUD_TYPE": "webdav", "RCLONE_CONFIG_CLOUD_URL": "http://127.0.0.1:\(port)/",
                "RCLONE_CONFIG_CLOUD_VENDOR": "other", "RCLONE_CONFIG_CLOUD_USER": TestServer.user,
                "RCLONE_CONFIG_CLOUD_PASS": password.trimmingCharacters(in: .whitespacesAndNewlines),
            ]
        }
    ) {
        let server = try SharedServers.apache.get()
        let name = UUID().uuidString
        try server.makeCollection(name)
        return (server, "rclone:cloud:\(name)", "\(server.files)/\(name)")
    }

    static let apache = webDAV(.apache) { try SharedServers.apache.get() }

    static let seaweedFS = bucket(.seaweedFS) { try SharedServers.seaweedFS.get() }

    static let all = [
        folder, apache,
        webDAV(.nginx, showsDotNames: false) { try SharedServers.nginx.get() },
        webDAV(.rcloneWebDAV) { try SharedServers.rcloneWebDAV.get() },
        seaweedFS,
        bucket(.rcloneS3) { try SharedServers.rcloneS3.get() },
    ]

    /// All that are on servers, of every kind.
    static let servers = all.dropFirst() + [bucket(.juiceFS) { try SharedServers.juiceFS.get() }]

    /// A folder of its own on a server.
    private static func webDAV(
        _ cloud: Cloud,
        showsDotNames: Bool = true,
        _ server: @escaping @Sendable () throws -> TestServer
    ) -> SharedSource {
        SharedSource(testDescription: cloud.testDescription, showsDotNames: showsDotNames) {
            let server = try server()
            let name = UUID().uuidString
            try server.makeCollection(name)
            return (server, cloud.address(server.port) + name, "\(server.files)/\(name)")
        }
    }

    /// A prefix of its own in a bucket, whose objects are told and made by requests.
    private static func bucket(
        _ cloud: Cloud,
        _ server: @escaping @Sendable () throws -> TestServer
    ) -> SharedSource {
        let plant = "\(curl) --data-binary text -X PUT \"$files/$name\""
        return SharedSource(testDescription: cloud.testDescription, plant: plant) {
            let server = try server()
            let name = UUID().uuidString
            let files = "http://127.0.0.1:\(server.port)/\(TestServer.bucket)/\(name)"
            // Some servers forget a prefix with its last object.
            try Command.run("bash", ["-ec", plant], environment: ["files": files, "name": ".cove/standing"])
            return (server, cloud.address(server.port).replacing("/?", with: "/\(name)?"), files)
        }
    }

    /// The beginning of a request to a bucket.
    private static let curl = """
        curl -sf --aws-sigv4 aws:amz:us-east-1:s3 --user \(TestServer.user):\(TestServer.password) \
            -H "x-amz-content-sha256: UNSIGNED-PAYLOAD"
        """

    /// Runs a body with two devices and the folder of the source.
    func devices(
        isMounted: Bool = true,
        options: String = "poll=500ms,settle=50ms,log=debug",
        _ body: @escaping @Sendable (MountedAccount, MountedAccount, String) throws -> Void
    ) async throws {
        try await blocking {
            let (owner, address, files) = try start()
            let here = try MountedAccount(options: options, address: address)
            let there = try MountedAccount(options: options, address: address)
            if isMounted { for device in [here, there] { try device.start() } }
            do {
                try body(here, there, files)
            } catch {
                let logs = [here, there].map { (try? $0.shell("tail -40 $STATE/log")) ?? "" }
                throw CommandFailure("\(error)\n\(logs.joined(separator: "\n"))")
            }
            for device in [here, there] { try device.end() }
            withExtendedLifetime(owner) {}
        }
    }

    /// The hidden items that are left in the tree of a source.
    static func hidden(_ files: String) throws -> [String] {
        try names(files).filter { name in
            // nginx has these without their dot.
            !name.hasPrefix(".cove/")
                && name.split(separator: "/").contains { $0.contains(/^\.?cove-(moving|deleting)-/) }
        }
    }

    /// The names of all that a source has; of a bucket those of its objects.
    static func names(_ files: String) throws -> [String] {
        guard files.hasPrefix("http") else {
            return FileManager.default.enumerator(atPath: files)?.compactMap { $0 as? String } ?? []
        }
        let slash = try #require(files.lastIndex(of: "/"))
        let (bucket, prefix) = (String(files[..<slash]), String(files[files.index(after: slash)...]) + "/")
        var names: [String] = []
        var query = "list-type=2&max-keys=1000&prefix=\(encoded(prefix))"
        while true {
            let script = "\(curl) \"$bucket?$query\""
            let variables = ["bucket": bucket, "query": query]
            let listing = try Command.run("bash", ["-ec", script], environment: variables).output
            let keys = listing.matches(of: /<Key>([^<]*)<\/Key>/).map(\.output.1)
            #expect(keys.allSatisfy { $0.hasPrefix(prefix) }, "\(listing)")
            names += keys.map { String($0.dropFirst(prefix.count)) }
            if listing.contains("<IsTruncated>false") { break }
            let token = listing.firstMatch(of: /<NextContinuationToken>([^<]*)</)?.output.1
            let next = encoded(String(try #require(token, "\(listing)")))
            query = "continuation-token=\(next)&list-type=2&max-keys=1000&prefix=\(encoded(prefix))"
        }
        #expect(!names.isEmpty)
        return names
    }

    /// All files of a source with their bytes and all directories, without Cove's own names.
    static func snapshot(_ files: String) throws -> [String: [UInt8]?] {
        guard files.hasPrefix("http") else { return try SourceFolder(files).snapshot() }
        var result: [String: [UInt8]?] = [:]
        let folder = try TemporaryDirectory("objects")
        var requests = ""
        var objects: [String] = []
        for name in try Self.names(files) {
            let parts = name.split(separator: "/")
            let shown = parts.prefix { !$0.hasPrefix(".cove") }
            for depth in shown.indices.dropLast() { result[shown[...depth].joined(separator: "/")] = .some(nil) }
            // An object of Cove's own may stand for the directory that it is in.
            if shown.count < parts.count || name.hasSuffix("/") {
                if !shown.isEmpty { result[shown.joined(separator: "/")] = .some(nil) }
                continue
            }
            requests += "url = \"\(files)/\(encoded(name, "/"))\"\noutput = \"\(folder.path)/\(objects.count)\"\n"
            objects.append(name)
        }
        try requests.write(toFile: folder.appending("requests"), atomically: false, encoding: .utf8)
        if !objects.isEmpty {
            let script = "\(curl) --config \"$requests\""
            try Command.run("bash", ["-ec", script], environment: ["requests": folder.appending("requests")])
        }
        for (index, name) in objects.enumerated() {
            result[name] = try Array(Data(contentsOf: URL(fileURLWithPath: folder.appending("\(index)"))))
        }
        return result
    }

    /// A name as an address has it.
    private static func encoded(_ name: String, _ allowed: String = "") -> String {
        let plain = CharacterSet(charactersIn: "-._~\(allowed)").union(
            CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        )
        return name.addingPercentEncoding(withAllowedCharacters: plain) ?? name
    }
}

/// One server of each kind for all sources, from the first that needs it to the end of the tests.
private enum SharedServers {
    static let apache = Result { try TestServer.apache() }
    static let nginx = Result { try TestServer.nginx() }
    static let rcloneWebDAV = Result { try TestServer.rcloneWebDAV() }
    static let seaweedFS = Result { try TestServer.seaweedFS() }
    static let juiceFS = Result { try TestServer.juiceFS() }
    static let rcloneS3 = Result { try TestServer.rcloneS3() }
}
