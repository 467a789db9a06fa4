import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Many programs that save in every way, on files that have other names, are in packages, or are presented by one that is
    /// stopped.
    struct CoordinationCrowdTests {
        /// Adds one to the numbers in files, under one claim, until it is told to stop; prints the names, one a line.
        private static let counting = """
            import random
            session = Session(socket_path)
            os.chdir(os.environ["mnt"])
            while not os.path.exists(os.environ["tmp"] + "/enough"):
                item = random.choice(ITEMS)
                claim = session.claim(("writing", item))
                names = [item + "/a", item + "/b"] if item == "P.rtfd" else [item]
                for name in names:
                    number = int(open(name).read().split()[0])
                    if ROTATES:
                        os.rename(name, name + ".1")
                    with open(name, "x" if ROTATES else "w") as file:
                        file.write("%d " % (number + 1))
                        file.flush()
                        file.write("end\\n")
                    print(name)
                session.release(claim)
            """

        /// Reads files under a claim; each must be whole, and the two of the package are of one time.
        private static let checking = """
            import random
            session = Session(socket_path)
            os.chdir(os.environ["mnt"])
            while not os.path.exists(os.environ["tmp"] + "/enough"):
                item = random.choice(ITEMS)
                claim = session.claim(("reading", item))
                names = ["P.rtfd/a", "P.rtfd/b"] if item == "P.rtfd" else [item]
                for name in names:
                    text = open(name).read()
                    assert text.endswith("end\\n") and text.split()[0].isdigit(), repr(text)
                session.release(claim)
            """

        /// Presents f3, and is stopped.
        private static let presenting = """
            session = Session(socket_path)
            session.calls.call("AddPresenter", session=session.token, path="f3",
                               messages=[k for k in KINDS if k != "saveChanges"], observes=[])
            done("presenting")
            until("never")
            """

        private static func adding(_ save: String) -> String {
            """
            until [ -e $tmp/enough ]; do
                n=$((RANDOM % 4))
                F=f$n $COVE coordinate --writing f$n -- bash -euc 'v=$(cut -d " " -f 1 $F); \(save)'
                echo f$n
            done
            """
        }

        private static let sed = adding(#"sed -i.bak "s/^$v /$((v + 1)) /" $F"#)
        private static let patch = adding(
            #"printf "%s\n" "--- $F" "+++ $F" "@@ -1 +1 @@" "-$v end" "+$((v + 1)) end" | patch -s -b -z .orig $F"#
        )
        private static let install = adding(
            #"echo "$((v + 1)) end" > $tmp/new-$$; install -b -S .old $tmp/new-$$ $F; rm $tmp/new-$$"#
        )

        @Test func `32 programs that save in every way lose no update, see no part and never hang`() async throws {
            try await mounted(options: "settle=200ms,presenter-timeout=2s") { account in
                try CoordinationScripts.prepare(account)
                try account.shell(
                    """
                    mkdir P.rtfd
                    for n in 0 1 2 3; do echo 0 end > f$n; ln -s f$n s$n; done
                    echo 0 end | tee P.rtfd/a P.rtfd/b > /dev/null
                    """
                )
                let presenter = try account.startPython(Self.presenting)
                try account.waitForMark("presenting")
                presenter.signal(SIGSTOP)
                let files = (0...3).map { "f\($0)" }
                let links = (0...3).map { "s\($0)" }
                func counting(_ items: [String], rotates: Bool = false) throws -> Command {
                    try account.startPython(
                        "ITEMS = \(items)\nROTATES = \(rotates ? "True" : "False")\n" + Self.counting
                    )
                }
                var writers = try (0..<4).map { _ in try counting(files) }
                writers += try (0..<3).map { _ in try counting(links) }
                writers += try (0..<3).map { _ in try counting(files, rotates: true) }
                writers += try (0..<3).map { _ in try counting(["P.rtfd/a", "P.rtfd/b"]) }
                writers += try (0..<2).map { _ in try counting(["P.rtfd"]) }
                for script in [Self.sed, Self.sed, Self.patch, Self.patch, Self.install] {
                    writers.append(try account.start(script))
                }
                var others = try (0..<5).map { _ in
                    try account.startPython("ITEMS = \(files + links + ["P.rtfd", "P.rtfd/a"])\n" + Self.checking)
                }
                let loop = "until [ -e $tmp/enough ]; do n=$((RANDOM % 4))"
                // A call that claims nothing may fail at its moment, and not for ever: the presenter is stopped to the end.
                let plain = "works=; until [ -e $tmp/enough -a -n \"$works\" ]; do n=$((RANDOM % 4))"
                for script in [
                    "\(plain); cat f? s? P.rtfd/? > /dev/null 2>&1 && works=1 || true; done",
                    "\(loop); $COVE coordinate --reading s$n --for-uploading -- sh -c 'grep -q end \"$COVE_SNAPSHOT\"'; done",
                    "\(plain); ln f$n l$$ && rm l$$ && works=1 || rm -f l$$ || true; done 2> /dev/null",
                ] {
                    others.append(try account.start(script))
                    others.append(try account.start(script))
                }
                #expect(writers.count + others.count + 1 == 32)
                // The time they have; nothing is waited for.
                let seconds = Double(ProcessInfo.processInfo.environment["COVE_LOAD_SECONDS"] ?? "") ?? 10
                #expect(!others[0].hasEnded(within: seconds))
                try account.shell("touch $tmp/enough")
                var expected: [String: Int] = [:]
                for writer in writers {
                    let result = try writer.wait(deadline: 100)
                    #expect(result.status == 0, "\(result.error)")
                    for name in result.output.split(separator: "\n") {
                        let file = name.hasPrefix("s") ? "f\(name.dropFirst())" : String(name)
                        expected[file, default: 0] += 1
                    }
                }
                for other in others {
                    let result = try other.wait(deadline: 100)
                    #expect(result.status == 0, "\(result.error)")
                }
                #expect(Set(expected.keys) == Set(files + ["P.rtfd/a", "P.rtfd/b"]))
                for (name, count) in expected {
                    #expect(try account.shell("cat \(name)") == "\(count) end\n", "\(name)")
                }
                try account.waitForWaiting(0)
                presenter.signal(SIGKILL)
                try account.expectSame()
            }
        }
    }
}
