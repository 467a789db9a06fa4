import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove pick --web`, in a browser.
    struct PickPageTests {
        private static let oddName = "<img src=x onerror=\"document.title='evil'\"> & co.txt"
        private static let longName =
            "A rather long name of a document that somebody wrote on a Sunday and never shortened.md"

        private static func fill(_ source: SourceFolder) throws {
            for name in ["alpha.txt", "beta.txt", "pack.zip", oddName, longName, "日本語の名前.txt"] {
                try source.save(name, Array("bytes of \(name)".utf8))
            }
            try source.save("picture.png", TestPicture.png(width: 90, height: 60, red: 200))
            try source.makeDirectory("docs")
            try source.makeDirectory("docs/inner")
            try source.save("docs/note.txt", Array("note".utf8))
            try source.makeDirectory("many")
            for number in 0..<450 { try source.save("many/file \(number).txt", Array("x".utf8)) }
        }

        /// A command that serves the page, and where.
        private func serve(_ account: MountedAccount, _ words: String) throws -> (Command, String) {
            let command = try account.start(
                "exec $COVE pick --app org.example.App --web --no-open --state $STATE \(words)"
            )
            let address = /http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{64}/
            try waitUntil("it is served: \(command.error)") { command.error.contains(address) }
            return (command, String(try #require(command.error.firstMatch(of: address)).output))
        }

        private func open(_ account: MountedAccount, _ words: String) throws -> (Command, Browser) {
            let (command, address) = try serve(account, words)
            let browser = try Browser(folder: account.scratch.appending("browser-\(UUID().uuidString)"))
            try browser.show(width: 1000, height: 720)
            try browser.open(address)
            try browser.wait(for: "document.querySelectorAll('#items li').length > 5")
            return (command, browser)
        }

        /// Waits until the picture's bytes are here, and a smaller one is made of them.
        private func makePicture(_ account: MountedAccount) throws {
            try account.shell("cat picture.png > $tmp/picture")
            try waitUntil("there is a thumbnail") {
                try account.start("$COVE thumbnail picture.png").wait(deadline: 60).status == 0
            }
        }

        private static let current = "document.activeElement.querySelector('.label')?.textContent"

        @Test func `a document is found and chosen by keys alone`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try makePicture(account)
                let (command, browser) = try open(account, "--mode import --type public.text --type public.image")
                #expect(try !browser.text("location.href").contains("token"))
                try browser.wait(for: "\(Self.current) === 'docs'")
                try browser.press("Enter")
                try browser.wait(for: "\(Self.current) === 'inner'")
                #expect(
                    try browser.text("[...document.querySelectorAll('#crumbs li')].map((x) => x.innerText).join('/')")
                        == "source/docs"
                )
                try browser.press("Enter")
                try browser.wait(for: "document.getElementById('status').textContent === 'Nothing is here'")
                #expect(try browser.text("document.activeElement.id") == "items")
                try browser.press("Backspace")
                try browser.wait(for: "\(Self.current) === 'inner'")
                try browser.press("ArrowLeft")
                try browser.wait(for: "\(Self.current) === 'docs'")
                // The picture of what is here is shown; nothing else was fetched for one.
                try browser.wait(for: "document.querySelector('.picture img')?.naturalWidth > 0")
                // What can't be chosen says so, and is not.
                try browser.press("p", "a", "c", "k")
                try browser.wait(for: "document.querySelectorAll('#items li').length === 1")
                #expect(try browser.text("document.activeElement.id") == "filter")
                try browser.press("ArrowDown", "Enter")
                try browser.wait(
                    for:
                        "document.getElementById('error').textContent === 'org.example.App can’t use items of this type.'"
                )
                #expect(try browser.evaluate("document.getElementById('choose').disabled") == .bool(true))
                #expect(
                    try browser.text("document.activeElement.getAttribute('aria-label')").hasSuffix("can’t be chosen")
                )
                try browser.press("Escape")
                try browser.wait(
                    for: "document.querySelectorAll('#items li').length > 5 && \(Self.current) === 'pack.zip'"
                )
                try browser.press("Home", "ArrowDown", "ArrowDown")
                try browser.wait(for: "\(Self.current) === \(JSONValue.string(Self.oddName).description)")
                try browser.press("Enter")
                try browser.wait(for: "document.querySelector('h1').textContent === 'Done'")
                #expect(try browser.text("document.title") == "Done – Cove")
                let result = try command.wait(deadline: 60)
                #expect(result.status == 0 && result.output.hasSuffix("/\(Self.oddName)\n"))
                let copy = try String(contentsOfFile: String(result.output.dropLast()), encoding: .utf8)
                #expect(copy == "bytes of \(Self.oddName)")
                #expect(try account.info("beta.txt").state == "dataless")
            }
        }

        @Test func `the page can be used by everybody: names, roles, order, contrast and focus`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("echo mine > $tmp/my.txt")
                try makePicture(account)
                for words in [
                    "--mode import --type public.text --type public.image", "--mode export --file $tmp/my.txt",
                ] {
                    let (command, browser) = try open(account, words)
                    let mode = words.contains("export") ? "export" : "import"
                    try browser.wait(for: "document.querySelector('.picture img')?.naturalWidth > 0")
                    for (name, width, height, isDark) in [
                        ("light", Int64(1000), Int64(720), false), ("dark", 1000, 720, true),
                        ("narrow", 390, 760, false),
                        ("narrow-dark", 320, 560, true), ("flat", 640, 360, false),
                    ] {
                        try browser.show(width: width, height: height, isDark: isDark)
                        // Colours that change slowly are looked at when they have changed.
                        try browser.wait(for: "document.getAnimations().length === 0")
                        #expect(try browser.text(PageCheck.script) == "", "\(mode) \(name)")
                        try browser.keepPicture("\(mode)-\(name)")
                        // The focus goes round the page and is always seen.
                        var visited: [String] = []
                        for _ in 0..<8 {
                            try browser.press("Tab")
                            let problem = try browser.text(PageCheck.focus)
                            let place = try browser.text("document.activeElement.id || document.activeElement.tagName")
                            if place == "BODY" { continue }
                            #expect(problem == "", "\(mode) \(name)")
                            visited.append(place)
                        }
                        #expect(
                            visited.contains("filter") && visited.contains("cancel")
                                && visited.contains { $0.hasPrefix("item-") }
                        )
                    }
                    try expectCheckFinds(browser)
                    let items = try browser.accessibleItems()
                    let needName = [
                        "button", "textbox", "searchbox", "listbox", "option", "link", "heading", "navigation",
                    ]
                    for item in items where needName.contains(item.role) { #expect(!item.name.isEmpty, "\(item)") }
                    for role in ["banner", "main", "contentinfo", "navigation", "search", "status", "listbox"] {
                        #expect(items.filter { $0.role == role }.count == 1, "\(role)")
                    }
                    #expect(
                        items.contains { $0 == ("button", "source") } && items.contains { $0 == ("button", "Cancel") }
                    )
                    #expect(items.contains { $0.role == "option" && $0.name.hasPrefix("docs, folder, ") })
                    #expect(
                        items.contains {
                            $0.role == "option" && $0.name.hasPrefix("beta.txt, Not here yet, 17 bytes, ")
                        }
                    )
                    #expect(items.contains { $0 == ("searchbox", "Filter by name") })
                    try browser.press("Escape")
                    try browser.wait(for: "document.querySelector('h1').textContent === 'Cancelled'")
                    let result = try command.wait(deadline: 60)
                    #expect(result.status == 1 && result.error.hasSuffix("\ncove: cancelled\n") && result.output == "")
                }
            }
        }

        /// A check that finds nothing in a bad page would say nothing of a good one.
        private func expectCheckFinds(_ browser: Browser) throws {
            for (harm, mend, words) in [
                (
                    "document.querySelector('.label').style.color = '#888'",
                    "document.querySelector('.label').style.color = ''", "contrast"
                ),
                (
                    "document.getElementById('cancel').textContent = ''",
                    "document.getElementById('cancel').textContent = 'Cancel'", "no name"
                ),
                (
                    "document.querySelector('nav').id = 'items'", "document.querySelector('nav').removeAttribute('id')",
                    "id twice"
                ),
                (
                    "document.querySelector('nav').setAttribute('role', 'x')",
                    "document.querySelector('nav').removeAttribute('role')", "role"
                ),
                (
                    "document.getElementById('filter').tabIndex = 3", "document.getElementById('filter').tabIndex = 0",
                    "order of Tab"
                ),
                ("document.documentElement.lang = ''", "document.documentElement.lang = 'en'", "no language"),
            ] {
                _ = try browser.evaluate(harm)
                #expect(try browser.text(PageCheck.script).contains(words), "\(harm)")
                _ = try browser.evaluate(mend)
            }
            #expect(try browser.text(PageCheck.script) == "")
        }

        @Test func `a long folder comes as it is looked at, and a folder that does not answer is said to load`()
            async throws
        {
            try await mounted(prepare: Self.fill) { account in
                let (command, browser) = try open(account, "--mode import --json")
                try browser.press("ArrowDown", "Enter")
                try browser.wait(for: "document.getElementById('status').textContent === '450 items'")
                #expect(try browser.evaluate("document.querySelectorAll('#items li').length") == .integer(200))
                try waitUntil("the end is reached") {
                    try browser.press("End")
                    return try browser.text(Self.current) == "file 99.txt"
                }
                #expect(try browser.evaluate("document.querySelectorAll('#items li').length") == .integer(450))
                #expect(try browser.text("document.activeElement.getAttribute('aria-posinset')") == "450")
                try browser.press("Backspace")
                try browser.wait(for: "\(Self.current) === 'many'")
                let daemon = try pid_t(account.statistics().daemonPID)
                kill(daemon, SIGSTOP)
                defer { kill(daemon, SIGCONT) }
                try browser.press("ArrowUp", "Enter")
                try browser.wait(for: "document.getElementById('status').textContent === 'Loading…'")
                #expect(try browser.text("document.getElementById('items').getAttribute('aria-busy')") == "true")
                kill(daemon, SIGCONT)
                try browser.wait(for: "\(Self.current) === 'inner'")
                try browser.press("Escape")
                let result = try command.wait(deadline: 60)
                #expect(result.status == 1 && result.output == "{\"cancelled\":true}\n")
            }
        }

        @Test func `a copy goes to a folder, under a name of one's own`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("echo mine > $tmp/note.txt")
                let (command, browser) = try open(account, "--mode export --file $tmp/note.txt")
                try browser.press("Enter")
                try browser.wait(for: "\(Self.current) === 'inner'")
                _ = try browser.evaluate(
                    "document.getElementById('name').focus(), document.getElementById('name').select()"
                )
                for letter in ["a", "b"] { try browser.press(letter) }
                try browser.press("Enter")
                try browser.wait(for: "document.querySelector('h1').textContent === 'Done'")
                let result = try command.wait(deadline: 60)
                #expect(result.output == "\(account.mount)/docs/ab\n" && result.status == 0)
                #expect(try account.shell("cat docs/ab docs/note.txt") == "mine\nnote")
            }
        }

        @Test func `the address works once, for its own user, until the command ends`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let (command, address) = try serve(account, "--mode import")
                func status(_ words: String) throws -> String {
                    try account.shell("curl -s -o /dev/null -w '%{http_code}' --max-time 20 \(words)")
                }
                let place = address.prefix { $0 != "?" }
                #expect(try status(String(place)) == "403")
                command.signal(SIGTERM)
                #expect(try command.wait(deadline: 60).status == 143)
                #expect(try account.start("curl -s '\(place)'").wait(deadline: 60).status != 0)
                let (second, other) = try serve(account, "--mode import")
                if geteuid() == 0 {
                    // Whoever reads the address in a list of processes can't use it, and does not use it up.
                    let stranger =
                        "setpriv --reuid 65534 --clear-groups curl -s -w '%{http_code}' --max-time 20 '\(other)'"
                    #expect(try account.shell(stranger) == "This page is another user's\n403")
                }
                #expect(try status("'\(other)'") == "200")
                // A browser is opened with the address, unless it is not to be.
                try account.shell(
                    "mkdir $tmp/bin; printf '#!/bin/sh\\necho \"$1\" > $tmp/opened\\n' > $tmp/bin/xdg-open; chmod +x $tmp/bin/xdg-open"
                )
                let third = try account.start(
                    "PATH=$tmp/bin:$PATH exec $COVE pick --app org.example.App --mode import --web --state $STATE"
                )
                let opened = account.scratch.appending("opened")
                try waitUntil("it is opened") {
                    let text = (try? String(contentsOfFile: opened, encoding: .utf8)) ?? ""
                    return text.hasPrefix("http://127.0.0.1:") && third.error.contains(text.dropLast())
                }
                third.signal(SIGINT)
                #expect(try third.wait(deadline: 60).status == 1)
                #expect(try status("'\(other)'") == "403")
                second.signal(SIGINT)
                let result = try second.wait(deadline: 60)
                #expect(result.status == 1 && result.error.hasSuffix("cove: cancelled\n"))
            }
        }
    }
}
