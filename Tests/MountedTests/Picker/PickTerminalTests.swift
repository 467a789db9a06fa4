import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove pick` on a terminal.
    struct PickTerminalTests {
        private static func fill(_ source: SourceFolder) throws {
            for (name, text) in [
                ("alpha.txt", "first"), ("beta.txt", "second"), ("pack.zip", "PK"), ("pic.png", "no picture"),
            ] {
                try source.save(name, Array(text.utf8))
            }
            try source.save("日本語の名前.txt", Array("wide".utf8))
            try source.save("evil\u{1B}[2J\u{1B}]0;x\u{7}\n\u{202E}.txt", Array("evil".utf8))
            try source.makeDirectory("docs")
            try source.save("docs/inner.txt", Array("inner".utf8))
        }

        private func picker(
            _ account: MountedAccount,
            _ words: String,
            columns: Int = 80,
            rows: Int = 24
        ) throws -> TerminalScreen {
            let screen = try TerminalScreen(account, columns: columns, rows: rows)
            try screen.run(
                "stty -a > $tmp/before; clear; sh -c 'echo $$ > $tmp/pid; exec $COVE pick --app org.example.App --state $STATE \(words)'"
                    + " > $tmp/out 2> $tmp/err; echo \"status $?\""
            )
            return screen
        }

        /// The terminal is a shell's again, with the settings that it had.
        private func expectRestored(_ screen: TerminalScreen, _ account: MountedAccount, status: Int) throws {
            try screen.wait(for: "status \(status)")
            let lines = try screen.lines()
            #expect(!lines.contains { $0.contains("Filter:") || $0.contains("alpha.txt") }, "\(lines)")
            try screen.run("stty -a > $tmp/after; echo looked")
            try screen.wait("the settings are known") { $0.contains("looked") }
            #expect(try account.shell("cmp $tmp/before $tmp/after") == "")
        }

        @Test func `a document is found with the arrows and copied`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let screen = try picker(account, "--mode import --type public.text --type public.image")
                try screen.wait(for: "7 of 7")
                let lines = try screen.lines()
                #expect(lines[0] == "Choose a document to copy for org.example.App" && lines[1] == "source")
                #expect(lines.contains { $0.hasPrefix("> docs/") })
                #expect(lines.contains { $0.contains("alpha.txt") && $0.contains("not here") && $0.contains(" 5B ") })
                #expect(lines.contains { $0.hasPrefix("  evil\\u{1b}[2J\\u{1b}]0;x\\u{7}") })
                #expect(lines.contains { $0.hasPrefix("  日本語の名前.txt") && $0.contains("not here") })
                #expect(try account.statistics().downloadsStarted == 0)
                try screen.press("Enter")
                try screen.wait(for: "source › docs")
                try screen.press("Left")
                try screen.wait("it is back") { $0.contains { $0.hasPrefix("> docs/") } }
                try screen.press("Down", "Down")
                try screen.wait("the cursor moved") { $0.contains { $0.hasPrefix("> beta.txt") } }
                try screen.press("Enter")
                try expectRestored(screen, account, status: 0)
                let copy = try account.shell("cat $tmp/out")
                #expect(copy.hasPrefix(account.scratch.appending(".cache/cove/picked/org.example.App/")))
                #expect(try account.shell("cat \"$(cat $tmp/out)\"") == "second")
                #expect(try account.shell("stat -c %a \"$(dirname \"$(cat $tmp/out)\")\"") == "700\n")
                #expect(try account.info("alpha.txt").state == "dataless")
            }
        }

        @Test func `as many levels of folders are shown as the app says whose documents they are`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell("echo at the top > own.txt")
                let documents = "a/Documents"
                try account.cove("container create com.a.box --app com.a.app --name a")
                for (version, levels) in [(1, "None"), (2, "One"), (3, "Any")] {
                    let manifest = """
                        {"CFBundleIdentifier": "com.a.app", "CFBundleVersion": "\(version)", "NSUbiquitousContainers": {"com.a.box": {
                        "NSUbiquitousContainerIsDocumentScopePublic": true, "NSUbiquitousContainerName": "a",
                        "NSUbiquitousContainerSupportedFolderLevels": "\(levels)"}}}
                        """
                    try Data(manifest.utf8).write(to: URL(fileURLWithPath: account.scratch.appending("manifest.json")))
                    try account.cove("app register com.a.app --manifest $tmp/manifest.json")
                    if version == 1 {
                        try account.shell(
                            "cd \(documents); mkdir -p d/e; for f in . d d/e; do echo text > $f/f.txt; done"
                        )
                    }
                    let screen = try picker(account, "--mode import")
                    try screen.wait("the container is offered") {
                        $0.contains { $0.hasSuffix(" a") || $0.hasSuffix(" a/") }
                    }
                    try screen.press("Down", "Enter")
                    try screen.wait(for: "f.txt")
                    #expect(try screen.lines().contains { $0.contains(" d/") } == (levels != "None"))
                    try screen.press("Escape")
                    try screen.wait(for: "status 1")
                    let refusal = "is in a folder that its app shows nobody; choose another one"
                    for (place, level) in [("f.txt", 0), ("d/f.txt", 1), ("d/e/f.txt", 2)] {
                        let choose = "$COVE pick --app org.example.App --mode import --choose \(documents)/\(place)"
                        if levels == "Any" || level < version {
                            #expect(try account.shell("cat \"$(\(choose))\"") == "text\n")
                        } else {
                            try account.expectRefusal(choose, "$mnt/\(documents)/\(place): \(refusal)")
                        }
                        // Its own are the app's to choose.
                        try account.cove("pick --app com.a.app --mode import --choose \(documents)/\(place)")
                    }
                }
            }
        }

        @Test func `70. leaving changes nothing and is told`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell(
                    "ls -R > $tmp/list; touch $tmp/out $tmp/err $tmp/before $tmp/after; ls -R > $tmp/list"
                )
                let screen = try picker(account, "--mode import --json")
                try screen.wait(for: "7 of 7")
                try screen.type("zip")
                try screen.wait("only what has this is left") {
                    $0.contains("Filter: zip") && $0.contains { $0.hasPrefix("1 of 7") }
                }
                try screen.press("Escape")
                try screen.wait("all are back") { $0.contains { $0.hasPrefix("7 of 7") } }
                try screen.press("Escape")
                try expectRestored(screen, account, status: 1)
                #expect(try account.shell("cat $tmp/out $tmp/err") == "{\"cancelled\":true}\ncove: cancelled\n")
                #expect(
                    try account.shell("ls -R | diff - $tmp/list; ls -d $tmp/.cache/cove/picked 2>&1 || true").contains(
                        "No such"
                    )
                )
                #expect(try account.statistics().downloadsStarted == 0)
            }
        }

        @Test func `what is greyed out is not chosen, and a longer look shows all`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let screen = try picker(account, "--mode import --type public.text", columns: 30, rows: 9)
                try screen.wait(for: "7 of 7")
                try screen.type("pack")
                try screen.wait("it is found") { $0.contains { $0.hasPrefix("> pack.zip") } }
                try screen.press("Enter")
                try screen.wait(for: "org.example.App can't use ite")
                try screen.resize(columns: 100, rows: 30)
                try screen.wait("all is drawn anew") { $0.count >= 30 && $0.contains { $0.contains("not here") } }
                try screen.resize(columns: 8, rows: 2)
                try screen.wait(for: "Too sma")
                try screen.resize(columns: 60, rows: 12)
                try screen.wait(for: "> pack.zip")
                try screen.press("C-c")
                try screen.wait(for: "status 1")
                #expect(try account.shell("cat $tmp/out $tmp/err") == "cove: cancelled\n")
            }
        }

        @Test func `a file goes to a folder under a name that is free`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("echo mine > $tmp/inner.txt")
                for (keys, name) in [([], "inner 2.txt"), (["C-u"], "inner.txt"), (["C-u"], "other.txt")] {
                    let screen = try picker(account, "--mode export --file $tmp/inner.txt")
                    try screen.wait(for: "7 of 7")
                    try screen.press("Enter")
                    try screen.wait(for: "source › docs")
                    try screen.press("Tab")
                    try screen.wait(for: "Enter: put it here")
                    if !keys.isEmpty {
                        try screen.press("C-u")
                        try screen.type(name == "inner.txt" ? "../x" : name)
                    }
                    try screen.press("Enter")
                    if name == "inner.txt" {
                        try screen.wait(for: "That is a name with a slash")
                        // The file's own name is one that finds a free one; a name of a person's own must be free.
                        try screen.press("C-u")
                        try screen.type("inner 2.txt")
                        try screen.press("Enter")
                        try screen.wait(for: "File exists")
                        try screen.press("Escape", "Escape")
                        try screen.wait(for: "status 1")
                    } else {
                        try screen.wait(for: "status 0")
                        #expect(try account.shell("cat $tmp/out") == "\(account.mount)/docs/\(name)\n")
                        #expect(try account.shell("cat 'docs/\(name)'") == "mine\n")
                    }
                }
                #expect(
                    try account.shell("ls -A docs; cat docs/inner.txt") == "inner 2.txt\ninner.txt\nother.txt\ninner"
                )
                try account.expectSame()
            }
        }

        @Test func `the terminal is given back at a signal, and while the picker is stopped`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let screen = try picker(account, "--mode import")
                try screen.wait(for: "7 of 7")
                try screen.type("alp")
                try screen.wait(for: "1 of 7")
                try screen.press("C-z")
                try screen.wait(for: "Stopped")
                #expect(try !screen.text().contains("Filter:"))
                try screen.run("stty -a > $tmp/after; echo looked; fg; echo \"status $?\"")
                try screen.wait("it goes on where it was") {
                    $0.contains("Filter: alp") && $0.contains { $0.hasPrefix("1 of 7") }
                }
                #expect(try account.shell("cmp $tmp/before $tmp/after") == "")
                try account.shell("kill -TERM $(cat $tmp/pid)")
                try expectRestored(screen, account, status: 143)
                #expect(try account.shell("cat $tmp/out $tmp/err") == "")
            }
        }

        @Test func `what takes long can be given up`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("mkfifo $tmp/held $tmp/go")
                let writer = try account.start(
                    "$COVE coordinate --writing beta.txt bash -c 'echo > $tmp/held; read < $tmp/go'"
                )
                try account.shell("read < $tmp/held")
                let screen = try picker(account, "--mode import")
                try screen.wait(for: "7 of 7")
                try screen.type("beta")
                try screen.wait(for: "> beta.txt")
                try screen.press("Enter")
                try screen.wait(for: "Working…")
                try waitUntil("it waits") { try account.cove("claims").contains("waiting") }
                try screen.press("Escape")
                try screen.wait(for: "Given up; nothing has changed")
                try waitUntil("it waits no more") { try !account.cove("claims").contains("waiting") }
                // The end of the picker ends it, too.
                try screen.press("Enter")
                try screen.wait(for: "Working…")
                try screen.press("C-c")
                try screen.wait(for: "status 1")
                try account.shell("echo > $tmp/go")
                #expect(try writer.wait(deadline: 60).status == 0)
                #expect(
                    try account.shell("cat $tmp/out $tmp/err; ls -A $tmp/.cache 2>/dev/null || true")
                        == "cove: cancelled\n"
                )
            }
        }

        @Test func `a folder that does not answer freezes nothing`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let screen = try picker(account, "--mode import")
                try screen.wait(for: "7 of 7")
                let daemon = try pid_t(account.statistics().daemonPID)
                kill(daemon, SIGSTOP)
                defer { kill(daemon, SIGCONT) }
                try screen.press("Enter")
                try screen.wait(for: "Loading…")
                try screen.type("x")
                try screen.wait(for: "Filter: x")
                try screen.press("Escape", "Left")
                try screen.wait("it is back above") { $0.count > 1 && $0[1] == "source" }
                try screen.press("Escape")
                try screen.wait(for: "status 1")
                kill(daemon, SIGCONT)
            }
        }
    }
}
