import Foundation

extension TestServer {
    /// The bucket that every S3 server has.
    public static let bucket = "test"

    /// SeaweedFS: master, volume server, filer and S3 gateway in one process.
    ///
    /// `cleansAfter` says when it deletes folders that were emptied, and files that have taken their names; it looks every half
    /// minute.
    public static func seaweedFS(cleansAfter: String = "24h") throws -> TestServer {
        try s3("seaweedfs", program: "weed") { folder, port in
            let identity = """
                {"identities": [{"name": "\(user)", "credentials": [{"accessKey": "\(user)", "secretKey": "\(password)"}],
                "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}
                """
            try identity.write(toFile: folder.appending("s3.json"), atomically: false, encoding: .utf8)
            let ports = try (0..<7).map { _ in try freePort() }
            let arguments = [
                "-logtostderr=true", "server", "-dir=\(folder.path)/files", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                "-s3", "-s3.port=\(port)", "-s3.port.grpc=\(ports[0])", "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-s3.config=\(folder.path)/s3.json", "-master.port=\(ports[1])", "-master.port.grpc=\(ports[2])",
                "-master.volumeSizeLimitMB=256", "-master.telemetry=false", "-volume.port=\(ports[3])",
                "-volume.port.grpc=\(ports[4])", "-volume.max=50", "-volume.preStopSeconds=0",
                "-filer.port=\(ports[5])", "-filer.port.grpc=\(ports[6])",
                "-filer.localSocket=\(folder.path)/filer.sock", "-s3.localSocket=\(folder.path)/s3.sock",
            ]
            return (arguments, ["WEED_FILER_OPTIONS_S3_EMPTY_FOLDER_CLEANUP_DELAY": cleansAfter])
        }
    }

    /// The JuiceFS gateway, which is MinIO's S3 front over another store.
    public static func juiceFS() throws -> TestServer {
        try s3("juicefs", program: "juicefs") { folder, port in
            let store = "sqlite3://\(folder.path)/meta.db"
            if !FileManager.default.fileExists(atPath: folder.appending("meta.db")) {
                let format = ["format", "--storage", "file", "--bucket", "\(folder.path)/files/", "--trash-days", "0"]
                try Command.run(try installed("juicefs", "juicefs"), format + [store, "test"])
            }
            let arguments = [
                "gateway", store, "127.0.0.1:\(port)", "--multi-buckets", "--keep-etag", "--object-meta",
                "--object-tag", "--no-agent", "--no-usage-report", "--no-banner", "--backup-meta", "0",
                "--cache-dir", folder.appending("cache"), "--log", folder.appending("gateway.log"),
                "--metrics", "127.0.0.1:\(try freePort())",
            ]
            let login = ["MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password, "HOME": folder.path]
            return (arguments, login)
        }
    }

    /// `rclone serve s3` over a folder.
    public static func rcloneS3() throws -> TestServer {
        try s3("rclone", program: "rclone") { folder, port in
            let arguments = [
                "--config", folder.appending("rclone.conf"), "--cache-dir", folder.appending("cache"), "serve", "s3",
                folder.appending("files"), "--addr", "127.0.0.1:\(port)",
                "--dir-cache-time", "1s", "--vfs-cache-mode", "off",
            ]
            return (arguments, ["RCLONE_AUTH_KEY": "\"\(user),\(password)\""])
        }
    }

    /// The address of a prefix in the bucket, as a source; that no server cleans up late is known.
    public func s3Source(_ prefix: String) -> String {
        "s3://\(Self.bucket)/\(prefix)?endpoint=http://127.0.0.1:\(port)&region=us-east-1&late-cleaning=0"
    }

    private static func s3(
        _ name: String,
        program: String,
        _ prepare: (TemporaryDirectory, UInt16) throws -> (arguments: [String], environment: [String: String])
    ) throws -> TestServer {
        let path = try installed(name, program)
        return try TestServer(name, answers: isReady) { folder, port in
            let (arguments, environment) = try prepare(folder, port)
            return (path, arguments, environment)
        }
    }

    /// Where `mount-scripts/test` puts a server's program.
    private static func installed(_ name: String, _ program: String) throws -> String {
        try TestPackage.folder(name) + "/bin/\(program)"
    }

    /// True once the server has made the bucket and keeps an object; the requests are signed by curl.
    private static func isReady(_ port: UInt16) -> Bool {
        isListening(port) && ["200", "409"].contains(put("/\(bucket)", port))
            && put("/\(bucket)/.cove/ready", port, ["-d", "ready"]) == "200"
    }

    /// The status of a request to write.
    private static func put(_ path: String, _ port: UInt16, _ options: [String] = []) -> String {
        let arguments = [
            "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u",
            "\(user):\(password)", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-X", "PUT",
        ]
        let result = try? Command.run("curl", arguments + options + ["http://127.0.0.1:\(port)\(path)"], mayFail: true)
        return result?.output ?? ""
    }
}
