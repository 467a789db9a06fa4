import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Devices that share a real server.
    struct CloudTests {
        @Test(arguments: SharedSource.servers)
        func `an edit on one device reaches the other, whose programs hear of it`(source: SharedSource) async throws {
            try await source.devices { here, there, _ in
                try here.shell("mkdir Documents; echo one > Documents/letter.txt")
                try here.settle()
                try there.settle()
                #expect(try there.shell("ls Documents; cat Documents/letter.txt") == "letter.txt\none\n")
                let watcher = try there.start(
                    "inotifywait -q -m -e moved_to,close_write --format '%e %f' Documents & cat > /dev/null; wait"
                )
                defer { watcher.signal(SIGKILL) }
                try here.shell("echo two >> Documents/letter.txt")
                try here.settle()
                try waitUntil("the other device shows it") {
                    try there.shell("cat Documents/letter.txt") == "one\ntwo\n"
                }
                try waitUntil("inotify tells of it") { watcher.output.contains("MOVED_TO letter.txt") }
            }
        }

        @Test(arguments: SharedSource.servers)
        func `27. of edits on both devices while they were apart both are kept, on both`(
            source: SharedSource
        ) async throws {
            try await source.devices { here, there, _ in
                try here.shell("echo base > letter.txt")
                try here.settle()
                try there.settle()
                for (device, text) in [(here, "from here"), (there, "from there")] {
                    try device.shell("cat letter.txt; $COVE pause --state $STATE; echo \(text) > letter.txt")
                }
                try here.shell("$COVE resume --state $STATE")
                try here.settle()
                try there.shell("$COVE resume --state $STATE")
                try expectSame(here, there)
                let texts = try here.shell("cat * | sort; ls | wc -l")
                #expect(texts == "from here\nfrom there\n2\n")
            }
        }

        @Test(arguments: SharedSource.servers)
        func `trees with all that happens to them are the same on both devices`(source: SharedSource) async throws {
            try await source.devices { here, there, _ in
                try here.shell(
                    """
                    mkdir -p a/b/c; for i in $(seq 40); do echo $i > a/b/f$i; done; head -c 3000000 /dev/urandom > a/big
                    : > a/empty; cp a/big a/b/c/copy
                    """
                )
                try expectSame(here, there)
                try there.shell(
                    "mv a/b moved; rm a/empty; mkdir a/new; mv moved/f1 a/new; rm -r moved/c; echo x >> a/big"
                )
                try expectSame(here, there)
                try here.shell("vim -es -u NONE '+normal Ovim' +wq a/new/f1; sed -i s/2/two/ moved/f2; rm -r a")
                try expectSame(here, there)
            }
        }
    }
}

extension Mounted {
    /// A device whose server is away, and how long its programs wait for that.
    struct AwayTests {
        @Test func `without the server all that is here works, and what was done is sent later`() async throws {
            try await devices(.apache) { here, there, proxy in
                try here.shell("mkdir d; echo here > d/here; echo far > d/far; echo base > d/doc")
                try here.settle()
                try there.settle()
                try there.shell("ls d; cat d/here d/doc")
                proxy.set { $0.isSilent = true }
                proxy.dropAll()
                let listed = try there.shell(
                    """
                    ls d; cat d/here; stat -c %s d/far; echo more >> d/doc; mkdir d/new; mv d/here d/new/here
                    start=$(date +%s%N); cat d/far 2>$tmp/error && exit 1; end=$(date +%s%N)
                    echo $(( (end - start) / 1000000000 < 8 )); cat $tmp/error
                    """
                )
                let words = ["No route to host", "Connection timed out"]
                #expect(listed.hasPrefix("doc\nfar\nhere\nhere\n4\n1\n"), "\(listed)")
                #expect(words.contains { listed.contains($0) }, "\(listed)")
                try there.end()
                try there.start()
                #expect(try there.shell("cat d/doc d/new/here; ls d") == "base\nmore\nhere\ndoc\nfar\nnew\n")
                proxy.set { $0.isSilent = false }
                proxy.dropAll()
                try expectSame(here, there)
                #expect(try here.shell("cat d/doc d/new/here") == "base\nmore\nhere\n")
                #expect(try there.shell("cat d/far") == "far\n")
            }
        }
    }
}

/// A kind of server that devices share.
struct Cloud: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let start: @Sendable () throws -> TestServer
    let address: @Sendable (UInt16) -> String

    static let apache = webDAV("Apache") { try TestServer.apache() }
    static let nginx = webDAV("nginx") { try TestServer.nginx() }
    static let rcloneWebDAV = webDAV("rclone's WebDAV") { try TestServer.rcloneWebDAV() }
    static let rcloneS3 = s3("rclone's S3") { try TestServer.rcloneS3() }
    static let seaweedFS = s3("SeaweedFS") { try TestServer.seaweedFS() }
    static let juiceFS = s3("JuiceFS's S3") { try TestServer.juiceFS() }

    private static func webDAV(_ name: String, _ start: @escaping @Sendable () throws -> TestServer) -> Cloud {
        Cloud(testDescription: name, start: start) { "webdav://\(TestServer.user)@127.0.0.1:\($0)/" }
    }
}

extension Cloud {
    private static func s3(_ name: String, _ start: @escaping @Sendable () throws -> TestServer) -> Cloud {
        Cloud(testDescription: name, start: start, address: s3Address)
    }

    @Sendable static func s3Address(_ port: UInt16) -> String {
        "s3://\(TestServer.user)@\(TestServer.bucket)/?endpoint=http://127.0.0.1:\(port)&region=us-east-1&late-cleaning=0"
    }
}

/// Two devices on one server, the second one behind a line that can fail.
func devices(
    _ cloud: Cloud,
    _ body: @escaping @Sendable (MountedAccount, MountedAccount, FaultProxy) throws -> Void
) async throws {
    try await blocking {
        let server = try cloud.start()
        let proxy = try FaultProxy(to: server.port)
        let options = "poll=500ms,settle=50ms,stall-limit=3s,log=debug"
        let here = try MountedAccount(options: options, address: cloud.address(server.port))
        let there = try MountedAccount(options: options, address: cloud.address(proxy.port))
        try here.start()
        try there.start()
        do {
            try body(here, there, proxy)
        } catch {
            let logs = [here, there].map { (try? $0.shell("tail -30 $STATE/log")) ?? "" }
            throw CommandFailure("\(error)\n\(logs.joined(separator: "\n"))")
        }
        try here.end()
        try there.end()
    }
}

/// Settles both devices and sees that they have the same names and bytes.
func expectSame(
    _ here: MountedAccount,
    _ there: MountedAccount,
    location: SourceLocation = #_sourceLocation
) throws {
    // What one sends the other has to fetch, and what that makes of it goes back.
    for device in [here, there, here, there] { try device.settle() }
    let result = try Command.run("diff", ["-r", here.mount, there.mount], deadline: 60, mayFail: true)
    #expect(result.status == 0, "\(result.error)\(result.output)", sourceLocation: location)
}
