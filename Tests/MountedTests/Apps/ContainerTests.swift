import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Apps and their containers; the numbers are those of the acceptance checklist.
    struct ContainerTests {
        private static let notes = "iCloud.com.acme.Notes"

        private func names(_ account: MountedAccount, _ folder: String = "$mnt") throws -> [String] {
            try account.shell("ls -A \(folder)").split(separator: "\n").map(String.init).sorted()
        }

        @Test func `1. the root's documents are seen by every app, and on a second device`() async throws {
            try await mounted(options: "settle=50ms") { account in
                for app in ["one", "two"] {
                    try account.cove("container create com.\(app).box --app com.\(app).app")
                }
                try account.shell("echo shared > plain.txt; $COVE sync --wait")
                for app in ["one", "two"] {
                    let seen = try account.shell("$COVE run --app com.\(app).app -- sh -c 'cat $COVE_SHARED/plain.txt'")
                    #expect(seen == "shared\n")
                }
                let second = try MountedAccount(address: "dir://\(account.source.path)")
                try second.start()
                #expect(try second.shell("cat plain.txt") == "shared\n")
                try second.end()
            }
        }

        @Test func `64. a container has a path with Documents, and at the source its identifier's name`() async throws {
            try await mounted(options: "settle=50ms") { account in
                let made = try account.cove(
                    "container create \(Self.notes) --app com.acme.notes --name 'Acme Notes' --public"
                )
                #expect(made == "\(account.mount)/Acme Notes\n")
                #expect(try account.cove("container url \(Self.notes)") == made)
                #expect(try names(account, "\"$mnt/Acme Notes\"") == ["Documents"])
                try account.shell("echo text > 'Acme Notes/Documents/a.txt'; $COVE sync --wait")
                #expect(try account.source.text("\(Self.notes)/Documents/a.txt") == "text\n")
                // Made again it is the same one.
                #expect(try account.cove("container create \(Self.notes) --app com.acme.notes") == made)
                try account.expectRefusal(
                    "$COVE container create \(Self.notes) --app com.other.app",
                    "\(Self.notes): it belongs to com.acme.notes; choose another identifier"
                )
                try account.expectRefusal(
                    "$COVE container url com.none.there",
                    "com.none.there: no such container; see `cove container ls`"
                )
                for text in ["a", ".com.acme", "com..acme", "com/acme", "com.acme.", "com acme"] {
                    try account.expectRefusal(
                        "$COVE container create '\(text)' --app com.acme.notes",
                        "\(text): is no identifier; write it like com.acme.notes",
                        status: 2
                    )
                }
            }
        }

        @Test func `a hidden container is in no listing, and opens by its name`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create com.acme.box --app com.acme.app --name Box")
                #expect(try names(account) == [])
                try account.shell("echo x > Box/Documents/a; cat Box/Documents/a")
                try account.cove("container publish com.acme.box")
                #expect(try names(account) == ["Box"])
                try account.cove("container hide com.acme.box")
                #expect(try names(account) == [])
                // What is in the way of nobody is not shown either.
                #expect(try account.shell("ls -d _cove-drive") == "_cove-drive\n")
            }
        }

        @Test func `a container's name is what people call its folder, on every device`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create \(Self.notes) --app com.acme.notes --name Notes --public")
                try account.shell("echo one > Notes/Documents/a; $COVE sync --wait")
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                // Before anything was listed.
                #expect(try second.shell("cat Notes/Documents/a") == "one\n")
                #expect(try names(second) == ["Notes"])
                try account.shell("mv Notes Papers; $COVE sync --wait")
                try waitUntil("the other device calls it so", deadline: 30) { try names(second) == ["Papers"] }
                #expect(try names(account) == ["Papers"])
                #expect(try account.source.names().contains(Self.notes))
                try second.shell("echo two > Papers/Documents/b; $COVE sync --wait")
                try waitUntil("what was made there is here", deadline: 30) {
                    (try? account.shell("cat Papers/Documents/b")) == "two\n"
                }
                #expect(try account.source.text("\(Self.notes)/Documents/b") == "two\n")
                try account.expectSameContainers(second)
                // It goes nowhere else.
                try account.shell(
                    "mkdir other; ! mv Papers other/ 2>&1; ! rmdir Papers 2>&1; ! mkdir \(Self.notes) 2>&1"
                )
                try second.end()
                try account.crash()
                try account.start()
                #expect(try names(account) == ["Papers", "other"])
                #expect(try account.shell("cat Papers/Documents/a") == "one\n")
            }
        }

        @Test func `a name that something else has is given to no container`() async throws {
            try await mounted(options: "settle=50ms", prepare: { try $0.write("Notes/own.txt", "mine") }) { account in
                try account.shell("ls")
                let path = try account.cove("container create \(Self.notes) --app com.acme.notes --name Notes --public")
                #expect(path == "\(account.mount)/Notes (\(Self.notes))\n")
                #expect(try account.shell("cat Notes/own.txt") == "mine")
                try account.settle()
                #expect(try account.source.text("Notes/own.txt") == "mine")
                let second = try MountedAccount(address: "dir://\(account.source.path)")
                try second.start()
                #expect(try second.shell("cat Notes/own.txt") == "mine")
                #expect(try names(second).count == 2)
                try second.end()
            }
        }

        @Test func `69. a manifest's flag is heeded at either place, and again only with another version`() async throws
        {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("app register com.acme.notes")
                try account.cove("container create \(Self.notes) --app com.acme.notes")
                func manifest(_ keys: String) throws {
                    try Data("{\"CFBundleIdentifier\": \"com.acme.notes\", \(keys)}".utf8).write(
                        to: URL(fileURLWithPath: account.scratch.appending("manifest.json"))
                    )
                }
                func isPublic() throws -> Bool {
                    let all = try account.cove("container ls", as: [AccessInterface.Container].self)
                    return try #require(all.first).isPublic
                }
                let list = "\"com.apple.developer.ubiquity-container-identifiers\": [\"\(Self.notes)\"]"
                let flag = "\"NSUbiquitousContainerIsDocumentScopePublic\": true"
                #expect(try !isPublic())
                try manifest("\"CFBundleVersion\": \"2\", \(list), \(flag)")
                try account.cove("app register com.acme.notes --manifest $tmp/manifest.json")
                #expect(try isPublic())
                try manifest("\"CFBundleVersion\": \"2\", \(list)")
                #expect(
                    try account.cove("app register com.acme.notes --manifest $tmp/manifest.json").contains(
                        "nothing has changed"
                    )
                )
                #expect(try isPublic())
                try manifest("\"CFBundleVersion\": \"3\", \(list)")
                try account.cove("app register com.acme.notes --manifest $tmp/manifest.json")
                #expect(try !isPublic())
                try manifest(
                    "\"CFBundleVersion\": 4, \"NSUbiquitousContainers\": {\"\(Self.notes)\": {\(flag), "
                        + "\"NSUbiquitousContainerName\": \"Acme\"}}"
                )
                try account.cove("app register com.acme.notes --manifest $tmp/manifest.json")
                #expect(try isPublic())
                #expect(try names(account) == ["Acme"])
                // A manifest that lies takes nothing from anybody.
                try Data(
                    "<plist><dict><key>CFBundleVersion</key><string>9</string><key>NSUbiquitousContainers</key><dict><key>\(Self.notes)</key><dict/></dict></dict></plist>"
                        .utf8
                ).write(
                    to: URL(fileURLWithPath: account.scratch.appending("lie.plist"))
                )
                try account.expectRefusal(
                    "$COVE app register com.evil.app --manifest $tmp/lie.plist",
                    "com.evil.app: container \(Self.notes) belongs to com.acme.notes; take it out of the manifest"
                )
                #expect(try isPublic())
            }
        }

        @Test func `containers that are made without the source are there once it is back`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("pause")
                try account.cove("container create \(Self.notes) --app com.acme.notes --name Notes --public")
                try account.shell("echo x > Notes/Documents/a; mv Notes Papers; echo y > Papers/Documents/b")
                try account.killDaemon()
                try account.cove("resume")
                try account.settle()
                #expect(try account.source.text("\(Self.notes)/Documents/b") == "y\n")
                #expect(try !account.source.names().contains("Papers") && !account.source.names().contains("Notes"))
            }
        }
    }
}

extension MountedAccount {
    /// Sees that two devices have the same names and bytes in all containers.
    func expectSameContainers(_ other: MountedAccount, location: SourceLocation = #_sourceLocation) throws {
        try settle()
        try other.settle()
        let result = try Command.run("diff", ["-r", mount, other.mount], deadline: 120, mayFail: true)
        #expect(result.status == 0, "\(result.error)\(result.output)", sourceLocation: location)
    }
}
