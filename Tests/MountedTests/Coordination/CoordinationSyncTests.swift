import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What the cloud does here keeps to claims, and is told to presenters.
    struct CoordinationSyncTests {
        private static func coordinated(
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: "settle=100ms") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                try account.settle()
                try body(account)
            }
        }

        private static let holding = """
            $COVE coordinate --writing F -- sh -c '%; touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.01; done; %'
            """

        private static func holding(_ before: String, _ after: String) -> String {
            let parts = holding.components(separatedBy: "%")
            return parts[0] + before + parts[1] + after + parts[2]
        }

        @Test func `a remote change waits for a claim, others don't wait for it`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding("true", "cat F"))
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                try account.shell("echo remote > $src/F; echo remote > $src/G")
                try waitUntil("the other one is here") { try account.shell("cat G") == "remote\n" }
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 20).output == "old\n")
                try waitUntil("it is here") { try account.shell("cat F") == "remote\n" }
                try account.waitForWaiting(0)
            }
        }

        @Test func `what is done under a claim is sent when it ends`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding("echo half > F", "echo whole >> F"))
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                try account.shell("echo later > G")
                try waitUntil("the other one is sent") { try account.shell("cat $src/G") == "later\n" }
                #expect(try account.shell("cat $src/F") == "old\n")
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 20).status == 0)
                try account.settle()
                #expect(try account.shell("cat $src/F") == "half\nwhole\n")
            }
        }

        /// What a claim's holder does in two steps; nothing of the first is to be seen at the source.
        struct Change: Sendable, CustomTestStringConvertible {
            let claim: String
            let first: String
            let second: String
            var testDescription: String { "\(claim): \(first)" }
        }

        @Test(arguments: [
            Change(claim: "--writing F", first: "mv F F.bak", second: "echo new > F"),
            Change(claim: "--writing F", first: "rm F", second: "echo new > F"),
            Change(claim: "--writing F", first: "chmod 600 F; ln F L", second: "echo new > F"),
            Change(claim: "--writing P.rtfd/y", first: "echo half > P.rtfd/x", second: "echo whole >> P.rtfd/x"),
            Change(claim: "--writing P.rtfd", first: "rm P.rtfd/x", second: "echo new > P.rtfd/x"),
            Change(claim: "--writing P.rtfd", first: "mv P.rtfd B.rtfd", second: "cp -a B.rtfd P.rtfd"),
            Change(claim: "--moving D", first: "echo half > D/x; rm D/y", second: "mv D E"),
        ])
        func `nothing that is half done under a claim is sent`(change: Change) async throws {
            try await Self.coordinated { account in
                try account.shell("mkdir P.rtfd D; echo old | tee P.rtfd/x P.rtfd/y D/x D/y > /dev/null; echo G > H")
                try account.settle()
                let list = "cd $src; find . -type f ! -name G ! -name H ! -path '*/.cove/*' | sort | xargs grep ."
                let before = try account.shell(list)
                let script = Self.holding(change.first, change.second)
                let holder = try account.start(script.replacingOccurrences(of: "--writing F", with: change.claim))
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                // What comes later is sent, and a deletion after it.
                try account.shell("echo later > G")
                try waitUntil("another one is sent") { try account.shell("cat $src/G") == "later\n" }
                try account.shell("rm H")
                try waitUntil("a deletion is sent") {
                    try account.shell("ls $src").split(separator: "\n").contains("H") == false
                }
                #expect(try account.shell(list) == before)
                try account.shell("touch $tmp/go")
                let end = try holder.wait(deadline: 20)
                #expect(end.status == 0, "\(end.error)")
                try account.settle()
                #expect(try account.shell(list) == account.shell(list.replacingOccurrences(of: "$src", with: "$mnt")))
            }
        }

        @Test(arguments: ["mv F F.bak", "echo half > F", "rm F"])
        func `who waits under its own claim until all is sent is told, and does not wait for itself`(
            change: String
        ) async throws {
            try await Self.coordinated { account in
                let command = """
                    $COVE coordinate --writing F -- sh -c '\(change); echo later > G
                        timeout 60 $COVE sync --wait $mnt && echo done || echo failed $?'
                    """
                let result = try account.start(command).wait(deadline: 90)
                #expect(result.output.hasSuffix("failed 1\n"), "\(result)")
                #expect(result.error.contains("it is sent when the claim ends"), "\(result)")
                #expect(try account.shell("cat $src/G") == "later\n")
                try account.settle()
                try account.expectSame()
            }
        }

        @Test func `the name of a presented document that makes a backup is kept at the source as well`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("F")
                try account.shell("mv F F.bak")
                for name in ["G", "H"] {
                    try account.shell("echo later > \(name)")
                    try waitUntil("another one is sent") { try account.shell("cat $src/\(name) || :") == "later\n" }
                }
                #expect(try account.shell("cat $src/F; ls $src") == "old\nF\nG\nH\n")
                try account.shell("echo new > F")
                try account.settle()
                #expect(try account.shell("cat $src/F $src/F.bak") == "new\nold\n")
                try waitUntil("the change is told") { try log().contains("didChange F") }
                presenter.signal(SIGTERM)
            }
        }

        @Test func `presenters hear of remote changes, versions and evictions`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("F")
                try account.shell("echo remote > $src/F")
                try waitUntil("the change is told") { try log().contains("didChange F") }
                #expect(try log().dropFirst().first == "relinquishToWriter F")
                #expect(!(try log().contains { $0.hasPrefix("accommodate") }))
                #expect(try account.shell("cat F") == "remote\n")
                try account.settle()
                try account.shell("echo local > new; mv new F")
                try waitUntil("the version is told") { try log().contains("didGainVersion F") }
                try account.settle()
                try account.shell("$COVE evict F")
                #expect(try log().contains("accommodateEviction F"))
                try account.shell("$COVE coordinate --deleting F -- rm F")
                #expect(try log().contains("accommodateDeletion F"))
                presenter.signal(SIGTERM)
            }
        }

        @Test func `a presenter is not told of the echo of what was sent from here`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("F")
                /// How often a change was told until now: messages come in order, and this question is the last.
                func changes(_ question: Int) throws -> Int {
                    try account.shell("$COVE coordinate --reading F -- true")
                    try waitUntil("the presenter is asked") {
                        try log().filter { $0 == "relinquishToReader F" }.count == question
                    }
                    return try log().filter { $0 == "didChange F" }.count
                }
                try account.shell("$COVE pause --state $STATE; echo local > F; chmod 600 F")
                let told = try changes(1)
                #expect(told > 0)
                try account.shell("$COVE resume --state $STATE")
                for _ in 0..<3 { try account.settle() }
                #expect(try account.shell("cat $src/F") == "local\n")
                #expect(try changes(2) == told)
                // A change of another's is heard as before.
                try account.shell("echo remote > $src/F")
                try waitUntil("the change is told") { try log().filter { $0 == "didChange F" }.count > told }
                presenter.signal(SIGTERM)
            }
        }

        @Test func `attributes are told to those who observe them, versions with what they are`() async throws {
            try await Self.coordinated { account in
                let script = """
                    log = open(os.environ["tmp"] + "/heard", "w", buffering=1)

                    def answer(message):
                        if message["kind"] in ("didChangeAttributes", "didGainVersion"):
                            version = message.get("version") or {}
                            log.write(" ".join([message["kind"]] + message["attributes"] + [version.get("id", "")]) + "\\n")

                    session = Session(socket_path, answer)
                    session.calls.call("AddPresenter", session=session.token, path="F", observes=["is-uploaded"],
                                       messages=["didChangeAttributes", "didGainVersion"])
                    done("presents")
                    until("stop")
                    """
                try account.settle()
                let presenter = try account.startPython(script)
                try waitUntil("it presents") { try account.shell("ls $tmp").contains("presents") }
                func heard(_ kind: String) throws -> [String] {
                    try account.shell("cat $tmp/heard").split(separator: "\n").map(String.init).filter {
                        $0.hasPrefix(kind)
                    }
                }
                try account.shell("$COVE pause --state $STATE; echo local > F")
                try waitUntil("it is not sent") { try heard("didChangeAttributes").count == 1 }
                try account.shell("$COVE resume --state $STATE")
                try waitUntil("it is sent") { try heard("didChangeAttributes").count == 2 }
                #expect(
                    try heard("didChangeAttributes") == Array(repeating: "didChangeAttributes is-uploaded ", count: 2)
                )
                try account.shell("echo again > new; mv new F")
                try waitUntil("the version is told") { try !heard("didGainVersion").isEmpty }
                let id =
                    try heard("didGainVersion").last.map { $0.split(separator: " ").last.map(String.init) ?? "" } ?? ""
                #expect(try account.shell("$COVE versions ls F").contains(id) && Int(id) != nil, "\(id)")
                presenter.signal(SIGTERM)
            }
        }

        @Test func `bytes that a program presents and needs are not evicted`() async throws {
            try await Self.coordinated { account in
                let script = """
                    session = Session(socket_path)
                    session.calls.call("AddPresenter", session=session.token, path="F", messages=["didChange"], observes=[])
                    done("presents")
                    until("stop")
                    """
                let presenter = try account.startPython(script)
                try waitUntil("it presents") { try account.shell("ls $tmp").contains("presents") }
                try account.expectRefusal(
                    "$COVE evict F",
                    "F: a program presents it and needs its bytes; close it there first"
                )
                presenter.signal(SIGTERM)
                #expect(presenter.hasEnded(within: 10))
                try account.shell("$COVE evict F")
            }
        }
    }
}
