import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Many programs at once, and programs nobody here wrote.
    ///
    /// The numbers are those of the acceptance checklist.
    struct CoordinationLoadTests {
        @Test func `40. two processes that ask in both orders never deadlock`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo a > A; echo b > B")
                let scripts = [("A", "B"), ("B", "A")].map { first, second in
                    """
                    session = Session(socket_path)
                    for n in range(1000):
                        session.release(session.claim(("writing", "\(first)"), ("writing", "\(second)")))
                    print("done")
                    """
                }
                let commands = try scripts.map { try account.startPython($0) }
                for command in commands { #expect(try command.wait(deadline: 100).output == "done\n") }
            }
        }

        @Test func `25. appending programs and a claiming one lose nothing, and no reader sees a part`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("printf '' > F")
                let shells = try ["a", "b"].map { name in
                    try account.start("for n in $(seq 150); do echo \(name)-$n-end >> F; done")
                }
                let writer = try account.startPython(
                    """
                    session = Session(socket_path)
                    for n in range(40):
                        claim = session.claim(("writing", "F"))
                        with open(os.environ["mnt"] + "/F", "a") as file:
                            for part in ["c-", str(n + 1)]:
                                file.write(part)
                                file.flush()
                            file.write("-end\\n")
                        session.release(claim)
                    """
                )
                let reader = try account.startPython(
                    """
                    session = Session(socket_path)
                    while not os.path.exists(os.environ["tmp"] + "/enough"):
                        claim = session.claim(("reading", "F"))
                        text = open(os.environ["mnt"] + "/F").read()
                        session.release(claim)
                        for line in text.splitlines(True):
                            assert line.endswith("-end\\n"), repr(line)
                    """
                )
                for command in shells + [writer] {
                    let result = try command.wait(deadline: 100)
                    #expect(result.status == 0, "\\(result.error)")
                }
                try account.shell("touch $tmp/enough")
                let result = try reader.wait(deadline: 20)
                #expect(result.status == 0, "\(result.error)")
                let expected =
                    ["a", "b"].flatMap { name in (1...150).map { "\(name)-\($0)-end" } }
                    + (1...40).map { "c-\($0)-end" }
                #expect(
                    try account.shell("cat F").split(separator: "\n").map(String.init).sorted() == expected.sorted()
                )
            }
        }

        /// Adds one to the number in each of some files, under a claim, until it is told to stop; prints how often.
        private static let counting = """
            import random
            session = Session(socket_path)
            done_count = {name: 0 for name in NAMES}
            while not os.path.exists(os.environ["tmp"] + "/enough"):
                chosen = random.sample(NAMES, random.choice([1, 1, 2]))
                claim = session.claim(*[("writing", name) for name in chosen])
                for name in chosen:
                    path = os.environ["mnt"] + "/" + name
                    number = int(open(path).read().split()[0])
                    with open(path, "w") as file:
                        file.write("%d " % (number + 1))
                        file.flush()
                        file.write("end\\n")
                    done_count[name] += 1
                session.release(claim)
            print(json.dumps(done_count))
            """

        /// Reads files under a claim; each must be whole.
        private static let checking = """
            import random
            session = Session(socket_path)
            while not os.path.exists(os.environ["tmp"] + "/enough"):
                name = random.choice(NAMES)
                claim = session.claim(("reading", name))
                text = open(os.environ["mnt"] + "/" + name).read()
                session.release(claim)
                assert text.endswith("end\\n") and text.split()[0].isdigit(), repr(text)
            """

        @Test func `32 programs on 10 files lose no update, see no part and never hang`() async throws {
            try await mounted(options: "settle=200ms") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("for n in 0 1 2 3 4 5 6 7 8 9; do echo 0 end > f$n; done")
                func names(_ range: ClosedRange<Int>) -> String {
                    "NAMES = [\(range.map { "\"f\($0)\"" }.joined(separator: ", "))]\n"
                }
                let stop = account.scratch.appending("enough")
                let counted = (0...4).map { account.path("f\($0)") }
                let documents = try (0..<3).map { _ in
                    try account.driver("count \(stop) \(counted.joined(separator: " "))")
                }
                let followers = try (0..<2).map { number in
                    try account.driver("follow \(account.scratch.appending("counted")) \(counted[number])")
                }
                let writers = try (0..<5).map { _ in try account.startPython(names(0...4) + Self.counting) } + documents
                var others = try (0..<8).map { _ in try account.startPython(names(0...9) + Self.checking) }
                let loop = "until [ -e $tmp/enough ]; do n=$((RANDOM % 5 + 5))"
                for script in [
                    // As long as they only replace files, others see whole ones. What sed opened before the next one's
                    // claim it reads meanwhile: that one never empties the file.
                    "\(loop); sed -i 's/^[0-9]*/7/' f$n 2> /dev/null || true; done",
                    "\(loop); $COVE coordinate --writing f$n -- sh -c 'echo \"8 end\" 1<> f'$n; done",
                    "\(loop); $COVE coordinate --writing f$n -- vim -nu NONE -i NONE -es -c 's/.*/9 end/' -c wq f$n; done",
                    "\(loop); cat f$n > /dev/null; done",
                    "\(loop); $COVE coordinate --reading f$n --for-uploading -- sh -c 'grep -q end \"$COVE_SNAPSHOT\"'; done",
                ] {
                    others.append(try account.start(script))
                    others.append(try account.start(script))
                }
                others += try (0..<4).map { _ in
                    try account.start("until [ -e $tmp/enough ]; do cat f? > /dev/null; done")
                }
                #expect(writers.count + followers.count + others.count == 32)
                // The time they have; nothing is waited for.
                let seconds = Double(ProcessInfo.processInfo.environment["COVE_LOAD_SECONDS"] ?? "") ?? 12
                #expect(!others[0].hasEnded(within: seconds))
                try account.shell("touch $tmp/enough")
                var expected: [String: Int] = [:]
                for writer in writers {
                    let result = try writer.wait(deadline: 60)
                    #expect(result.status == 0, "\(result.error)")
                    guard let counts = try? JSONDecoder().decode([String: Int].self, from: Data(result.output.utf8))
                    else {
                        throw CommandFailure(result.output)
                    }
                    expected.merge(counts) { $0 + $1 }
                }
                for other in others {
                    let result = try other.wait(deadline: 60)
                    #expect(result.status == 0, "\(result.error)")
                }
                try account.shell("touch $tmp/counted")
                for (number, follower) in followers.enumerated() {
                    let lines = try follower.finish()
                    #expect(lines == ["followed to \(expected["f\(number)"] ?? 0)"], "\(lines)")
                }
                for (name, count) in expected {
                    #expect(try account.shell("cat \(name)") == "\(count) end\n")
                    #expect(count > 0)
                }
                try account.waitForWaiting(0)
                try account.expectSame()
            }
        }

        @Test func `the varlink package of PyPI lists, claims and releases`() async throws {
            try await mounted { account in
                let package = try TestPackage.folder("varlink")
                let output = try account.shell(
                    """
                    echo x > F
                    PYTHONPATH=\(package) python3 - <<'END'
                    import os, varlink
                    path = os.getxattr(".", "user.cove.coordination-socket").decode()
                    with varlink.Client.new_with_address("unix:" + path) as client:
                        print(sorted(client.get_interfaces()) if hasattr(client, "get_interfaces") else "")
                        with client.open("io.cove.Coordination") as cove:
                            intents = [{"kind": "writing", "path": "F", "options": []}]
                            claim = cove.Claim(None, None, None, None, intents, 5.0)
                            print(claim["items"][0]["path"], [c["state"] for c in cove.List()["claims"]])
                            cove.Release(claim["claim"])
                            print(cove.List()["claims"])
                    END
                    """
                )
                #expect(output.contains("io.cove.Coordination"))
                #expect(output.hasSuffix("F ['granted']\n[]\n"))
            }
        }
    }
}
