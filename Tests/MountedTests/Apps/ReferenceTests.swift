import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Documents that one app has of another; the numbers are those of the acceptance checklist.
    struct ReferenceTests {
        /// Two apps, of which one has a document that the other one is given.
        private func given(
            _ options: String = "settle=50ms",
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: options) { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                #expect(try account.pick("a/Documents/report.txt", for: "b") == "b/Documents/report.txt")
                try body(account)
            }
        }

        @Test func `75. a reference is its document: what is written through it the owner has, and is told of`()
            async throws
        {
            try await given { account in
                #expect(
                    try account.shell("cat b/Documents/report.txt; ls b/Documents") == "original\nown.txt\nreport.txt\n"
                )
                #expect(
                    try account.shell(
                        "stat -c '%i %s %Y' a/Documents/report.txt b/Documents/report.txt | sort -u | wc -l"
                    ) == "1\n"
                )
                // A listing tells the same.
                #expect(
                    try account.shell("find b -name report.txt -size -20c -printf '%i\n'")
                        == account.shell("stat -c %i a/Documents/report.txt")
                )
                try account.shell("echo through >> b/Documents/report.txt")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\nthrough\n")
                try account.settle()
                #expect(try account.source.text("com.a.box/Documents/report.txt") == "original\nthrough\n")
                #expect(try !account.source.snapshot().keys.contains("com.b.box/Documents/report.txt"))
                // The owner's program hears of it.
                let watch = try account.start("timeout 20 $COVE trace a/Documents/report.txt")
                try waitUntil("it is followed", deadline: 10) {
                    try account.shell("echo x >> b/Documents/report.txt"); return watch.output.contains("close")
                }
                watch.signal(SIGTERM)
                // As an app, in its own view.
                let seen = try account.asApp(
                    "b",
                    "cat Documents/report.txt; echo app >> Documents/report.txt; cat $COVE_SHARED/a/Documents/report.txt"
                )
                #expect(seen.hasPrefix("original\nthrough\n") && seen.contains("denied"), "\(seen)")
                #expect(try account.shell("tail -n 1 a/Documents/report.txt") == "app\n")
            }
        }

        @Test func `75. a claim on the document holds up who uses its reference`() async throws {
            try await given { account in
                let claim = try account.start(
                    "$COVE coordinate --writing a/Documents/report.txt -- sh -c 'touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.05; done; echo claimed > a/Documents/report.txt'"
                )
                try waitUntil("it is claimed", deadline: 20) {
                    FileManager.default.fileExists(atPath: account.scratch.appending("held"))
                }
                let reader = try account.start("cat b/Documents/report.txt")
                #expect(!reader.hasEnded(within: 0.5))
                try account.shell("touch $tmp/go")
                #expect(try claim.wait(deadline: 30).status == 0)
                #expect(try reader.wait(deadline: 30).output == "claimed\n")
            }
        }

        static let saves: [(name: String, script: String)] = [
            ("in place", "echo new > b/Documents/report.txt"),
            ("a rename over it", "echo new > b/Documents/.tmp1; mv b/Documents/.tmp1 b/Documents/report.txt"),
            (
                "a backup by renaming",
                "cd b/Documents; mv report.txt report.txt~; echo new > report.txt; rm -f report.txt~"
            ),
            (
                "a backup that stays",
                "cd b/Documents; mv report.txt report.txt~; echo new > report.txt; grep -q original report.txt~; rm report.txt~"
            ),
            ("vim", "vim -u NONE -es -c '%d' -c 'normal inew' -c wq b/Documents/report.txt"),
            (
                "vim with a backup by renaming",
                "vim -u NONE -es -c 'set backupcopy=no backup' -c '%d' -c 'normal inew' -c wq b/Documents/report.txt; rm -f b/Documents/report.txt~"
            ),
            ("sed", "sed -i s/original/new/ b/Documents/report.txt"),
            ("rsync", "echo new > $tmp/n; rsync $tmp/n b/Documents/report.txt"),
            (
                "cp",
                "echo new > $tmp/n; cp --remove-destination $tmp/n b/Documents/x; mv b/Documents/x b/Documents/report.txt"
            ),
        ]

        @Test(arguments: saves.indices)
        func `75. however a program saves, the document is what is changed`(_ index: Int) async throws {
            try await given { account in
                let save = Self.saves[index]
                try account.shell("ls -l b/Documents; cat b/Documents/report.txt; \(save.script)")
                #expect(try account.shell("cat a/Documents/report.txt") == "new\n", "\(save.name)")
                #expect(try account.shell("cat b/Documents/report.txt") == "new\n")
                #expect(try account.shell("ls b/Documents") == "own.txt\nreport.txt\n", "\(save.name)")
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                #expect(
                    grants.map(\.path) == ["a/Documents/report.txt"] && grants[0].reference == "b/Documents/report.txt"
                )
                try account.settle()
                #expect(try account.source.text("com.a.box/Documents/report.txt") == "new\n")
                #expect(
                    try account.source.snapshot().keys.filter { $0.hasPrefix("com.b.box/Documents/") } == [
                        "com.b.box/Documents/own.txt"
                    ]
                )
                // And what the owner saves the other one has.
                try account.shell("echo owner > a/Documents/.t; mv a/Documents/.t a/Documents/report.txt")
                #expect(try account.shell("cat b/Documents/report.txt") == "owner\n")
                try account.settle()
                try account.source.save("com.a.box/Documents/report.txt", Array("remote\n".utf8))
                try waitUntil("what changed at the source is seen through it", deadline: 30) {
                    (try? account.shell("cat b/Documents/report.txt")) == "remote\n"
                }
            }
        }

        @Test(arguments: saves.indices)
        func `75. the owner's presenters hear of a save through a reference, and so do those who watch the folders`(
            _ index: Int
        ) async throws {
            try await given { account in
                let save = Self.saves[index]
                let gates = try ["folder", "document"].map { try account.gate($0) }
                let paths = ["a/Documents", "a/Documents/report.txt"]
                let presenters = try zip(paths, gates).map {
                    try account.driver("present \(account.path($0))", "gate \($1)")
                }
                for presenter in presenters { try presenter.says("presenting") }
                let watches = try ["a", "b"].map {
                    try account.start("exec inotifywait -m --format '%e %f' \($0)/Documents")
                }
                for watch in watches {
                    try waitUntil("it watches") { watch.error.contains("Watches established") }
                }
                // A backup that is asked about is busy.
                try account.shell("\(save.script.replacingOccurrences(of: "rm ", with: ": "))")
                try presenters[0].says("> subitem changed report.txt")
                try presenters[1].says("> changed")
                try waitUntil("its own folder has it") {
                    watches[1].output.contains(/(MODIFY|MOVED_TO) report.txt/)
                }
                // Of what is changed in place the kernel tells by the name that was used alone.
                if !watches[1].output.contains(/(MOVED_TO|MOVED_FROM) report.txt/) {
                    #expect(index == 0 || save.name.hasPrefix("vim"), "\(save.name): \(watches[1].output)")
                } else {
                    try waitUntil("the owner's folder has it, of \(watches[1].output)", deadline: 20) {
                        watches[0].output.contains("ATTRIB report.txt")
                    }
                    try account.shell("echo owner > a/Documents/.t; mv a/Documents/.t a/Documents/report.txt")
                    try waitUntil("the reference's folder has it") { watches[1].output.contains("ATTRIB report.txt") }
                }
                for watch in watches { watch.signal(SIGTERM) }
                for (gate, presenter) in zip(gates, presenters) {
                    try gate.open(for: presenter)
                    _ = try presenter.finish()
                }
            }
        }

        @Test func `77. a reference follows its document, and what moves it; to remove it is to take it back`()
            async throws
        {
            try await given { account in
                try account.shell(
                    "mkdir b/Documents/sub; mv b/Documents/report.txt b/Documents/sub/mine.txt; mv b/Documents/sub b/Documents/dir"
                )
                #expect(try account.asApp("b", "cat Documents/dir/mine.txt") == "original\n")
                try account.shell(
                    "mkdir a/Documents/x; mv a/Documents/report.txt a/Documents/x/other.txt; mv a/Documents/x a/Documents/y"
                )
                #expect(
                    try account.asApp("b", "cat Documents/dir/mine.txt; echo more >> Documents/dir/mine.txt")
                        == "original\n"
                )
                #expect(try account.shell("cat a/Documents/y/other.txt") == "original\nmore\n")
                // Out of the container it is only copied.
                try account.shell(
                    "! mv -n b/Documents/dir/mine.txt a/Documents/ 2>/dev/null || [ -f a/Documents/mine.txt ]; ls b/Documents/dir"
                )
                try account.crash()
                try account.start()
                #expect(try account.pick("a/Documents/y/other.txt", for: "b").hasPrefix("b/Documents/"))
                let refs = try account.cove("refs ls", as: [AccessInterface.Reference].self)
                #expect(refs.count == 1 && refs[0].target == "a/Documents/y/other.txt", "\(refs)")
                let path = try #require(refs[0].path)
                #expect(try account.asApp("b", "cat $COVE_SHARED/\(path)") == "original\nmore\n")
                #expect(try account.shell("rmdir $(dirname \(path)) 2>&1 || true").contains("not empty"))
                #expect(try account.asApp("b", "rm $COVE_SHARED/\(path)") == "")
                #expect(try account.cove("grants ls") == "" && account.cove("refs ls") == "")
                #expect(try account.shell("cat a/Documents/y/other.txt") == "original\nmore\n")
            }
        }

        @Test func `97. grants outlive daemons, are listed, and end at the next open`() async throws {
            try await given { account in
                try account.killDaemon()
                let grant = try #require(try account.cove("grants ls", as: [AccessInterface.Grant].self).first)
                #expect(grant.app == "com.b.app" && grant.path == "a/Documents/report.txt" && grant.mayWrite)
                #expect(grant.source == "open" && grant.reference == "b/Documents/report.txt")
                try account.shell("mkfifo $tmp/go")
                let program = try account.start(
                    "$COVE run --app com.b.app -- bash -c 'exec 5< Documents/report.txt; echo ready; read x; cat <&5; cat /proc/self/fd/5; cat Documents/report.txt' 2>&1 < $tmp/go"
                )
                let hold = try account.start(
                    "exec 3> $tmp/go; while [ ! -e $tmp/done ]; do sleep 0.05; done; echo go >&3"
                )
                try waitUntil("it has the document open", deadline: 30) { program.output.contains("ready") }
                try account.cove("grants revoke \(grant.id)")
                try account.shell("touch $tmp/done")
                _ = try hold.wait(deadline: 30)
                let said = try program.wait(deadline: 30).output
                // What is open stays open; nothing is opened again.
                #expect(said.components(separatedBy: "original").count == 2, "\(said)")
                #expect(try account.shell("ls b/Documents") == "own.txt\n")
                try account.expectRefusal(
                    "$COVE grants revoke \(grant.id)",
                    "\(grant.id): no such grant; see `cove grants ls`"
                )
                try account.settle()
                try account.crash()
                try account.start()
                #expect(try account.cove("grants ls") == "")
                #expect(try account.asApp("b", "cat Documents/report.txt").contains("No such file"))
            }
        }

        @Test func `the same document has one reference, and only what is offered can be given`() async throws {
            try await given { account in
                #expect(try account.pick("a/Documents/report.txt", for: "b") == "b/Documents/report.txt")
                try account.shell("mkdir a/Documents/d; echo data > a/data.txt; echo r > root.txt; echo o > own.txt")
                #expect(try account.pick("root.txt", for: "b") == "b/Documents/root.txt")
                #expect(try account.pick("own.txt", for: "b") == "b/Documents/own 2.txt")
                for path in [
                    "a/Documents/d", "a/data.txt", "a", "b/Documents/own.txt", "_cove-drive/apps/com.a.app.json",
                    "none.txt",
                ] {
                    #expect(throws: (any Error).self, "\(path)") { try account.pick(path, for: "b") }
                }
                try account.cove("container hide com.a.box")
                try account.shell("echo x > a/Documents/hidden.txt")
                #expect(throws: (any Error).self) { try account.pick("a/Documents/hidden.txt", for: "b") }
            }
        }

        @Test func `43. and 76. the external scope has what references lead to, with both places`() async throws {
            try await given { account in
                func found(_ words: String = "--scope external") throws -> [[String: String]] {
                    let keys = ["URL", "URLInLocalContainer", "ContainerDisplayName", "FSName"].joined(separator: ",")
                    let text = try account.shell(
                        "$COVE query 'FSName LIKE \"*\"' \(words) --attributes \(keys) --json | cat"
                    )
                    return try text.split(separator: "\n").map { line in
                        let values = try JSONValue(parsing: Array(line.utf8))["values"] ?? .empty
                        guard case .object(let members) = values else { return [:] }
                        return members.compactMapValues(\.text)
                    }
                }
                let expected = [
                    "URL": "file://\(account.mount)/a/Documents/report.txt",
                    "URLInLocalContainer": "file://\(account.mount)/b/Documents/report.txt",
                    "ContainerDisplayName": "a", "FSName": "report.txt",
                ]
                #expect(try found() == [expected])
                #expect(try account.shell("$COVE query 'IsExternalDocument == TRUE' --scope external") != "")
                #expect(try account.shell("$COVE query 'IsExternalDocument == TRUE'") == "")
                #expect(
                    try found("--scope documents").map { $0["FSName"] }.sorted { $0 ?? "" < $1 ?? "" } == [
                        "own.txt", "report.txt",
                    ]
                )
                // Nobody finds the account's own documents.
                #expect(try !account.shell("$COVE query 'FSName LIKE \"*\"'").contains("_cove-drive"))
                let follow = try account.start("$COVE query 'FSName LIKE \"*\"' --scope external --follow")
                try waitUntil("it is found", deadline: 20) { follow.output.contains("report.txt") }
                try account.shell("mv a/Documents/report.txt a/Documents/renamed.txt")
                try waitUntil("its new name is told", deadline: 20) { follow.output.contains("renamed.txt") }
                try account.shell("rm b/Documents/report.txt")
                try waitUntil("it is gone", deadline: 20) {
                    follow.output.split(separator: "\n").last?.hasPrefix("-") == true
                }
                follow.signal(SIGTERM)
                #expect(try found() == [])
            }
        }

        @Test func `a reference whose document is gone is seen and can't be opened, until that is back`() async throws {
            try await given { account in
                try account.shell("rm a/Documents/report.txt")
                #expect(try account.shell("ls b/Documents") == "own.txt\nreport.txt\n")
                #expect(try account.shell("cat b/Documents/report.txt 2>&1 || true").contains("Stale file handle"))
                try account.shell("$COVE trash restore a/Documents/report.txt")
                #expect(try account.shell("cat b/Documents/report.txt") == "original\n")
                try account.shell("rm a/Documents/report.txt; rm b/Documents/report.txt; ls b/Documents")
                #expect(try account.cove("refs ls") == "")
            }
        }

        @Test func `a reference that another device makes read-only, or writable again, is so here`() async throws {
            try await given { account in
                try account.settle()
                let folder = account.source.path + "/_cove-drive/references"
                let record = try #require(try FileManager.default.contentsOfDirectory(atPath: folder).first)
                /// Writes the document as another device would.
                func say(_ isReadOnly: Bool) throws {
                    let url = URL(fileURLWithPath: "\(folder)/\(record)")
                    var said = try #require(
                        try JSONSerialization.jsonObject(with: Data(contentsOf: url)) as? [String: Any]
                    )
                    said["isReadOnly"] = isReadOnly ? true : nil
                    try JSONSerialization.data(withJSONObject: said).write(to: url)
                }
                func appends() throws -> Bool {
                    try account.asApp("b", "cat Documents/report.txt; echo far >> Documents/report.txt || echo no")
                        .contains("no\n") == false
                }
                #expect(try appends())
                try say(true)
                try waitUntil("it can't be written", deadline: 30) { try !appends() }
                #expect(try account.asApp("b", "cat Documents/report.txt").hasPrefix("original\n"))
                try say(false)
                try waitUntil("it can be written", deadline: 30) { try appends() }
            }
        }

        @Test func `references and what they stand for are the same on a second device`() async throws {
            try await given { account in
                try account.settle()
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls; ls b/Documents")
                try waitUntil("the reference is there", deadline: 30) {
                    (try? second.shell("cat b/Documents/report.txt")) == "original\n"
                }
                #expect(
                    try second.asApp("b", "cat Documents/report.txt; echo far >> Documents/report.txt") == "original\n"
                )
                try second.settle()
                try waitUntil("it comes to the first device", deadline: 30) {
                    (try? account.shell("cat b/Documents/report.txt")) == "original\nfar\n"
                }
                try account.shell(
                    "mv a/Documents/report.txt a/Documents/renamed.txt; mv b/Documents/report.txt b/Documents/ref.txt"
                )
                try account.settle()
                try waitUntil("both names follow", deadline: 30) {
                    (try? second.shell("cat b/Documents/ref.txt a/Documents/renamed.txt"))
                        == "original\nfar\noriginal\nfar\n"
                }
                try second.shell("rm b/Documents/ref.txt; $COVE sync --wait")
                try waitUntil("it is taken back on both", deadline: 30) { try account.cove("grants ls") == "" }
                #expect(try account.shell("ls b/Documents") == "own.txt\n")
                try second.end()
            }
        }

        @Test func `a reference to what came to be the app's own is one on a device that is new too`() async throws {
            try await given { account in
                try account.shell("mv a/Documents/report.txt b/Documents/mine.txt")
                let record = "cat $src/_cove-drive/references/*"
                try waitUntil("the record says where it is", deadline: 30) {
                    try account.settle()
                    return try account.shell(record).contains("mine.txt")
                }
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls -R . > /dev/null")
                try waitUntil("it is bound", deadline: 30) {
                    (try? second.shell("cat b/Documents/report.txt")) == "original\n"
                }
                #expect(
                    try second.cove("refs ls") == account.cove("refs ls").replacing(account.mount, with: second.mount)
                )
                // It stays given when it is another app's again.
                try second.shell("mv b/Documents/mine.txt a/Documents/back.txt")
                #expect(try second.asApp("b", "cat Documents/report.txt Documents/mine.txt").hasPrefix("original\n"))
                try second.end()
            }
        }
    }
}
