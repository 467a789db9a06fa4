import Foundation

extension TestServer {
    /// Apache httpd with mod_dav; with a name, as `IP:127.0.0.1`, over TLS with a certificate for it by the authority in
    /// `authority`; with Digest, passwords are proved by it alone.
    public static func apache(certificateFor name: String? = nil, digest: Bool = false) throws -> TestServer {
        try TestServer("apache", answers: isListening) { folder, port in
            if let name { try makeCertificate(for: name, in: folder) }
            let modules = "/usr/lib/apache2/modules"
            let names = [
                "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "dav",
                "dav_fs", "dav_lock", "mime", "setenvif", "reqtimeout",
            ]
            try writePasswords(folder)
            let login =
                digest
                ? ["AuthType Digest", "AuthDigestProvider file", "AuthUserFile \"\(folder.path)/digests\""]
                : ["AuthType Basic", "AuthUserFile \"\(folder.path)/htpasswd\""]
            try FileManager.default.createDirectory(
                atPath: folder.appending("locks"),
                withIntermediateDirectories: true
            )
            let lines =
                names.map { "LoadModule \($0)_module \(modules)/mod_\($0).so" } + [
                    "ServerName localhost",
                    "Listen 127.0.0.1:\(port)",
                    "PidFile \"\(folder.path)/httpd.pid\"",
                    "ErrorLog \"\(folder.path)/error.log\"",
                    "DefaultRuntimeDir \"\(folder.path)\"",
                    "Mutex pthread default",
                    "TypesConfig /dev/null",
                    "StartServers 1",
                    "ThreadsPerChild 50",
                    "MaxRequestWorkers 100",
                    "KeepAlive On",
                    "MaxKeepAliveRequests 0",
                    "KeepAliveTimeout 30",
                    "DocumentRoot \"\(folder.path)/files\"",
                    "DavLockDB \"\(folder.path)/locks/db\"",
                    "FileETag INode MTime Size",
                    "<Directory \"\(folder.path)/files\">",
                    "  Dav On", "  DavDepthInfinity On",
                    "  AuthName test", "  Require valid-user", "  Options None", "  AllowOverride None",
                ] + login + ["</Directory>"] + (name == nil ? [] : tls(modules, folder))
            try write(lines, to: folder.appending("httpd.conf"))
            let start = ["/usr/sbin/apache2", "-f", folder.appending("httpd.conf"), "-DFOREGROUND"]
            guard geteuid() == 0 else { return (start[0], Array(start.dropFirst()), [:]) }
            // It won't serve as root: it is www-data, with root's rights on files.
            let rights = "-all,+dac_override,+dac_read_search,+fowner"
            let arguments = [
                "--reuid", "www-data", "--regid", "www-data", "--clear-groups", "--inh-caps=\(rights)",
                "--ambient-caps=\(rights)",
            ]
            return ("setpriv", arguments + start, [:])
        }
    }

    /// The certificate to trust for a server over TLS.
    public var authority: String { folder.appending("authority.pem") }

    private static func tls(_ modules: String, _ folder: TemporaryDirectory) -> [String] {
        [
            "LoadModule ssl_module \(modules)/mod_ssl.so", "SSLEngine on", "SSLSessionCache none",
            "SSLCertificateFile \"\(folder.path)/server.pem\"", "SSLCertificateKeyFile \"\(folder.path)/server.key\"",
        ]
    }

    private static func makeCertificate(for name: String, in folder: TemporaryDirectory) throws {
        func openssl(_ arguments: String) throws {
            try Command.run("sh", ["-c", "cd \(folder.path) && openssl \(arguments)"])
        }
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        try openssl("req -x509 \(key) -keyout authority.key -out authority.pem -days 2 -subj /CN=authority")
        try openssl("req \(key) -keyout server.key -out server.csr -subj /CN=server")
        try "subjectAltName=\(name)\n".write(toFile: folder.appending("names"), atomically: false, encoding: .utf8)
        let authority = "-CA authority.pem -CAkey authority.key -CAcreateserial"
        try openssl("x509 -req -in server.csr \(authority) -days 2 -extfile names -out server.pem")
    }

    /// nginx with its DAV module and dav-ext.
    public static func nginx() throws -> TestServer {
        try TestServer("nginx", answers: isListening) { folder, port in
            try writePasswords(folder)
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
                "  \($0)_temp_path \"\(folder.path)/\($0)\";"
            }
            let lines =
                [
                    "load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;",
                    geteuid() == 0 ? "user root;" : "",
                    "daemon off;",
                    "worker_processes 1;",
                    "pid \"\(folder.path)/nginx.pid\";",
                    "error_log \"\(folder.path)/error.log\";",
                    "events { worker_connections 512; }",
                    "http {",
                    "  access_log off;",
                    "  client_max_body_size 0;",
                ] + temporary + [
                    "  dav_ext_lock_zone zone=locks:4m;",
                    "  keepalive_requests 1000000;",
                    "  server {",
                    "    listen 127.0.0.1:\(port);",
                    "    root \"\(folder.path)/files\";",
                    "    auth_basic test;",
                    "    auth_basic_user_file \"\(folder.path)/htpasswd\";",
                    "    location / {",
                    "      dav_methods PUT DELETE MKCOL COPY MOVE;",
                    "      dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;",
                    "      dav_ext_lock zone=locks;",
                    "      dav_access user:rw group:r all:r;",
                    "      create_full_put_path off;",
                    "      min_delete_depth 0;",
                    "    }",
                    "  }",
                    "}",
                ]
            try write(lines, to: folder.appending("nginx.conf"))
            let arguments = [
                "-p", folder.path, "-e", folder.appending("error.log"), "-c", folder.appending("nginx.conf"),
            ]
            return ("/usr/sbin/nginx", arguments, [:])
        }
    }

    /// `rclone serve webdav` over a folder.
    public static func rcloneWebDAV() throws -> TestServer {
        try TestServer("rclone-webdav", answers: isListening) { folder, port in
            let arguments = [
                "--config", folder.appending("rclone.conf"), "--cache-dir", folder.appending("cache"),
                "serve", "webdav", folder.appending("files"), "--addr", "127.0.0.1:\(port)",
                "--user", user, "--pass", password, "--etag-hash", "MD5", "--dir-cache-time", "1s",
                "--poll-interval", "0", "--vfs-cache-mode", "off",
            ]
            return ("rclone", arguments, [:])
        }
    }

    /// Makes a folder at the root of a WebDAV server.
    public func makeCollection(_ name: String) throws {
        let login = "\(Self.user):\(Self.password)"
        let address = "http://127.0.0.1:\(port)/\(name)/"
        try Command.run("curl", ["-sSf", "-o", "/dev/null", "-u", login, "-X", "MKCOL", address])
    }

    private static func write(_ lines: [String], to path: String) throws {
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: false, encoding: .utf8)
    }

    private static func writePasswords(_ folder: TemporaryDirectory) throws {
        let hash = try Command.run("openssl", ["passwd", "-apr1", password]).output
        try "\(user):\(hash)".write(toFile: folder.appending("htpasswd"), atomically: false, encoding: .utf8)
        let text = Array("\(user):test:\(password)".utf8)
        let digest = try Command.run("sh", ["-c", "printf %s \"$0\" | md5sum", String(decoding: text, as: UTF8.self)])
        try "\(user):test:\(digest.output.prefix(32))\n"
            .write(toFile: folder.appending("digests"), atomically: false, encoding: .utf8)
        // The server may be another user, who passes through the folder.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.path)
    }
}
