import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove pick` where a person has several accounts: its menu, on the terminal and on the page.
    ///
    /// Accounts of other tests are in the menu, too: what is looked for is found by its name.
    struct PickAccountsTests {
        /// Runs the body with two accounts, the second of which has a name of its own and a public container.
        private static func two(
            _ name: String,
            _ body: @escaping @Sendable (MountedAccount, MountedAccount) throws -> Void
        ) async throws {
            try await mounted(prepare: { try $0.save("mine.txt", Array("mine\n".utf8)) }) { account in
                let cloud = try TemporaryDirectory("cloud")
                let folder = cloud.appending(name)
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let other = try MountedAccount(address: "dir://\(folder)")
                try other.start()
                try other.addApp("a", document: "report.txt", "original\n")
                try other.shell("echo kept > old.txt; mkdir box")
                try body(account, other)
                try other.end()
            }
        }

        private func picker(_ account: MountedAccount, _ words: String, in folder: String? = nil) throws
            -> TerminalScreen
        {
            let screen = try TerminalScreen(account, columns: 120, rows: 40)
            try screen.run(
                "cd \(folder ?? account.mount); rm -f $tmp/out $tmp/err; stty -a > $tmp/before; clear; "
                    + "$COVE pick --app org.example.App \(words) > $tmp/out 2> $tmp/err; echo \"status $?\""
            )
            return screen
        }

        /// Goes into a folder, or chooses a document.
        private func take(_ screen: TerminalScreen, _ name: String) throws {
            try screen.wait(for: " \(name)")
            try screen.type(String(name.prefix { $0 != "/" }))
            try screen.wait("\(name) is found") { $0.contains { $0.hasPrefix("> \(name)") } }
            try screen.press("Enter")
        }

        /// Goes from the menu to the place of a name.
        private func go(_ screen: TerminalScreen, to place: String) throws {
            try screen.wait("the menu is shown") { $0.count > 1 && $0[1] == "Places" }
            try screen.press("C-u")
            try screen.type(place)
            try screen.press("Home")
            // Where several accounts have the name it is followed by where each is.
            try screen.wait("\(place) is found") { lines in
                lines.contains { $0.hasPrefix("> \(place)/") || $0.hasPrefix("> \(place) – ") }
            }
            try screen.press("Enter")
        }

        /// Ends the picker, which gives the terminal back and has done nothing.
        private func leave(_ screen: TerminalScreen, _ account: MountedAccount) throws {
            try screen.press("C-c")
            try screen.wait(for: "status 1")
            try screen.run("stty -a > $tmp/after; echo looked")
            try screen.wait("the settings are known") { $0.contains("looked") }
            #expect(try account.shell("cat $tmp/out $tmp/err; cmp $tmp/before $tmp/after") == "cove: cancelled\n")
        }

        @Test func `70. the menu has all accounts, and a document of the second one is chosen`() async throws {
            try await Self.two("Archive") { account, other in
                let screen = try picker(account, "--mode import")
                try screen.wait("its own account comes first") { lines in
                    lines.count > 4 && lines[4].hasPrefix("> source") && lines.contains { $0.hasPrefix("  Archive/") }
                        && lines.contains { $0.hasPrefix("  a (Archive)/") }
                }
                try go(screen, to: "a (Archive)")
                try screen.wait("its documents are shown") { lines in
                    lines[1] == "a (Archive)" && lines.contains { $0.hasPrefix("> report.txt") }
                }
                try screen.press("Left")
                try go(screen, to: "Archive")
                try screen.wait("what is in it is shown, without containers") { lines in
                    lines[1] == "Archive" && lines.contains { $0.hasPrefix("> box/") }
                        && lines.contains { $0.hasPrefix("  old.txt") } && !lines.contains { $0.contains(" a/") }
                        && !lines.contains { $0.contains("_cove") }
                }
                try take(screen, "old.txt")
                try screen.wait(for: "status 0")
                #expect(try account.shell("cat \"$(cat $tmp/out)\"") == "kept\n")
                // One account alone has no menu.
                let alone = try picker(account, "--mode import --state $STATE")
                try alone.wait("it is gone into") { $0.contains { $0.hasPrefix("> mine.txt") } }
                try leave(alone, account)
                // From elsewhere, too.
                let elsewhere = try picker(account, "--mode import", in: "/")
                try go(elsewhere, to: "Archive")
                try elsewhere.wait(for: "old.txt")
                try leave(elsewhere, account)
            }
        }

        @Test func `who has one account meets its name once, and its containers by theirs alone`() async throws {
            try await Self.two("Gone") { account, _ in
                try account.addApp("b", document: "own.txt", "own\n")
                // Other accounts are mounted for everybody but the picker.
                let alone = """
                    awk '$3 == "fuse.cove" && $2 != ENVIRON["mnt"] { print $2 }' /proc/self/mounts | xargs -rn1 umount -l
                    exec "$COVE" pick --app org.example.App --mode import
                    """
                try account.shell("cat > $tmp/alone <<'END'\n\(alone)\nEND")
                let screen = try TerminalScreen(account, columns: 120, rows: 40)
                try screen.run("cd $mnt; unshare --mount bash $tmp/alone 2> $tmp/err; echo \"status $?\"")
                try screen.wait("its places are shown") { lines in
                    lines.count > 5 && lines[4].hasPrefix("> source/") && lines[5].hasPrefix("  b/")
                }
                #expect(try !screen.text().contains("(source)") && !screen.text().contains("Gone"))
                try screen.press("C-c")
                try screen.wait(for: "status 1")
            }
        }

        @Test func `files go to a folder of another account, and apps get references there if they have a container`()
            async throws
        {
            try await Self.two("Shelf") { account, other in
                try account.shell("echo new > $tmp/new.txt; echo whole > $tmp/whole.txt")
                let export = try picker(account, "--mode export --file $tmp/new.txt")
                try go(export, to: "Shelf")
                try take(export, "box/")
                try export.wait(for: "Shelf › box")
                try export.press("Tab", "Enter")
                try export.wait(for: "status 0")
                #expect(try account.shell("cat $tmp/out") == "\(other.mount)/box/new.txt\n")
                // To open is to have a reference in the account of the document.
                try account.cove("container create org.example.box --app org.example.App --name own")
                let opening = try picker(account, "--mode open")
                try opening.wait("its own account is shown") { lines in
                    lines.count > 4 && (lines[4].hasPrefix("> source") || lines.contains { $0.hasPrefix("> mine.txt") })
                }
                #expect(try !opening.text().contains("Shelf"))
                try leave(opening, account)
                try other.cove("container create org.example.box --app org.example.App --name theirs")
                let again = try picker(account, "--mode open")
                try go(again, to: "a (Shelf)")
                try again.wait(for: "> report.txt")
                try again.press("Enter")
                try again.wait(for: "status 0")
                #expect(try account.shell("cat $tmp/out") == "\(other.mount)/theirs/Documents/report.txt\n")
                #expect(try other.shell("cat theirs/Documents/report.txt") == "original\n")
                let move = try picker(account, "--mode move --file $tmp/whole.txt")
                try go(move, to: "Shelf")
                try take(move, "box/")
                try move.wait(for: "Shelf › box")
                try move.press("Tab", "Enter")
                try move.wait(for: "status 0")
                #expect(try account.shell("cat $tmp/out") == "\(other.mount)/theirs/Documents/whole.txt\n")
                #expect(try other.shell("cat box/whole.txt") == "whole\n")
                #expect(try account.shell("ls $tmp/whole.txt 2>&1 || true").contains("No such"))
            }
        }

        @Test func `scripts choose documents of any account, and no more than there is`() async throws {
            try await Self.two("Attic") { account, other in
                let pick = "$COVE pick --app org.example.App --mode"
                #expect(
                    try account.shell("cat \"$(\(pick) import --choose \(other.mount)/a/Documents/report.txt)\"")
                        == "original\n"
                )
                try account.shell("echo new > $tmp/new.txt")
                #expect(
                    try account.shell("\(pick) export --file $tmp/new.txt --choose \(other.mount)/box")
                        == "\(other.mount)/box/new.txt\n"
                )
                try account.cove("app register org.example.App --executable /bin/true")
                try account.expectRefusal(
                    "\(pick) open --choose \(other.mount)/old.txt",
                    "\(other.mount)/old.txt: no such app; register it with `cove app register`"
                )
                try account.expectRefusal(
                    "\(pick) import --choose \(other.mount)/nothing",
                    "\(other.mount)/nothing: no such item; check the name"
                )
            }
        }

        @Test func `an account that does not answer holds nobody up`() async throws {
            try await Self.two("Hanging") { account, other in
                let daemon = try pid_t(other.statistics().daemonPID)
                kill(daemon, SIGSTOP)
                defer { kill(daemon, SIGCONT) }
                let screen = try picker(account, "--mode import")
                try screen.wait("it is said of it") { lines in
                    lines.contains { $0.hasPrefix("> source") } && lines.contains("  Hanging/   does not answer")
                }
                try go(screen, to: "source")
                try screen.wait(for: " mine.txt")
                try screen.press("Left")
                try go(screen, to: "Hanging")
                try screen.wait(for: "Loading…")
                try screen.press("Left")
                try screen.wait("it is left") { $0.contains { $0.hasPrefix("> Hanging/") } }
                // Signals are the face's, whatever threads still wait.
                try leave(screen, account)
                // Once it answers it is as others are, and the same rules hold.
                let later = try picker(account, "--mode import")
                try go(later, to: "Hanging")
                try later.wait(for: "Loading…")
                kill(daemon, SIGCONT)
                try take(later, "old.txt")
                try later.wait(for: "status 0")
                #expect(try account.shell("cat \"$(cat $tmp/out)\"") == "kept\n")
            }
        }

        @Test func `an account that answers late is asked what it offers`() async throws {
            try await Self.two("Late") { account, other in
                let daemon = try pid_t(other.statistics().daemonPID)
                try account.cove("container create org.example.box --app org.example.App --name own")
                kill(daemon, SIGSTOP)
                defer { kill(daemon, SIGCONT) }
                let screen = try picker(account, "--mode open")
                try go(screen, to: "Late")
                try screen.wait(for: "Loading…")
                kill(daemon, SIGCONT)
                try screen.wait(for: "Late: the app has no container; make one with")
                try screen.press("Left")
                try go(screen, to: "source")
                try screen.wait(for: " mine.txt")
                try leave(screen, account)
            }
        }

        @Test func `one whose daemon has died is in the menu, and says so`() async throws {
            try await Self.two("Dead") { account, other in
                try other.die()
                let screen = try picker(account, "--mode import")
                try screen.wait("it is said of it") { $0.contains("  Dead/   does not answer") }
                try go(screen, to: "Dead")
                try screen.wait(for: "has died")
                try leave(screen, account)
                try Command.run("umount", ["-l", other.mount])
                try other.start()
            }
        }

        @Test func `70. the page has the same menu`() async throws {
            try await Self.two("Paper") { account, other in
                let daemon = try pid_t(other.statistics().daemonPID)
                defer { kill(daemon, SIGCONT) }
                let current = "document.activeElement.querySelector('.label')?.textContent"
                for isSilent in [true, false] {
                    kill(daemon, isSilent ? SIGSTOP : SIGCONT)
                    let command = try account.start(
                        "exec $COVE pick --app org.example.App --web --no-open --mode import"
                    )
                    let address = /http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{64}/
                    try waitUntil("it is served: \(command.error)") { command.error.contains(address) }
                    let browser = try Browser(folder: account.scratch.appending("browser-\(isSilent)"))
                    try browser.show(width: 1000, height: 720)
                    try browser.open(String(try #require(command.error.firstMatch(of: address)).output))
                    try browser.wait(for: "document.getElementById('crumbs')?.innerText === 'Places'")
                    try browser.wait(for: "\(current)?.startsWith('source')")
                    _ = try browser.evaluate("document.getElementById('filter').focus()")
                    for letter in ["p", "a", "p", "e", "r"] { try browser.press(letter) }
                    try browser.wait(for: "document.querySelectorAll('#items li').length === \(isSilent ? 1 : 2)")
                    let name = try browser.text("document.querySelector('#items li').getAttribute('aria-label')")
                    #expect(name == (isSilent ? "Paper, folder, does not answer" : "Paper, folder"))
                    for width in [Int64(1000), 390] {
                        try browser.show(width: width, height: 720, isDark: width == 390)
                        try browser.wait(for: "document.getAnimations().length === 0")
                        #expect(try browser.text(PageCheck.script) == "")
                        let seen = "document.querySelector('#items li .state').getBoundingClientRect().width > 0"
                        if isSilent { #expect(try browser.evaluate(seen) == .bool(true), "\(width)") }
                    }
                    try browser.press("ArrowDown", "Enter")
                    if isSilent {
                        try browser.wait(for: "document.getElementById('status').textContent === 'Loading…'")
                        try browser.press("Backspace")
                        try browser.wait(for: "\(current) === 'Paper'")
                        command.signal(SIGINT)
                        #expect(try command.wait(deadline: 60).status == 1)
                        continue
                    }
                    try browser.wait(for: "document.getElementById('items').innerText.includes('old.txt')")
                    try browser.press("Backspace")
                    try browser.wait(for: "\(current) === 'Paper'")
                    try browser.press("ArrowDown", "Enter")
                    try browser.wait(for: "\(current) === 'report.txt'")
                    try browser.press("Enter")
                    try browser.wait(for: "document.querySelector('h1').textContent === 'Done'")
                    let result = try command.wait(deadline: 60)
                    #expect(result.status == 0)
                    #expect(
                        try String(contentsOfFile: String(result.output.dropLast()), encoding: .utf8) == "original\n"
                    )
                }
            }
        }

        @Test func `other people's accounts are not in the menu`() async throws {
            try #require(geteuid() == 0, "another user is needed")
            try await Self.two("Theirs") { account, _ in
                let stranger = "cd /; unset XDG_RUNTIME_DIR; HOME=/h exec setpriv --reuid 65534 --clear-groups"
                try account.expectRefusal(
                    "\(stranger) $COVE pick --app org.example.App --mode import --web --no-open",
                    "no account is mounted; mount one with `cove mount`, or name one with --state"
                )
            }
        }
    }
}
