import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// What `user.cove.*` says of a file.
private func told(_ file: String, by account: MountedAccount) throws -> [String: String] {
    let names = [
        "is-ubiquitous", "downloading-status", "is-downloading", "percent-downloaded", "is-uploaded", "is-uploading",
        "percent-uploaded", "download-requested", "downloading-error", "uploading-error", "has-conflicts",
        "container-display-name", "is-external", "url-in-local-container", "docid", "item-id", "tags",
        "excluded-from-sync", "content-policy", "is-shared", "role", "permissions", "none-such",
    ]
    let ask =
        "for a in \(names.joined(separator: " ")); do echo \"$a $(getfattr --only-values -n user.cove.$a '\(file)' 2>&1)\"; done"
    var values: [String: String] = [:]
    for line in try account.shell(ask).split(separator: "\n") {
        let words = line.split(separator: " ", maxSplits: 1)
        guard let name = words.first, names.contains(String(name)) else { continue }
        let value = words.count > 1 ? String(words[1]) : ""
        if !value.hasSuffix("No such attribute") { values[String(name)] = value }
    }
    return values
}

extension MountedInCompany {
    /// What programs ask files by extended attributes.
    struct FileQuestionTests {
        /// What is the same of every file that nothing is set of.
        private static let usual = [
            "has-conflicts": "0", "is-external": "0", "excluded-from-sync": "0", "is-shared": "0", "role": "owner",
            "permissions": "readWrite", "content-policy": "lazily-and-evict", "is-downloading": "0",
            "is-uploading": "0",
        ]

        private func expect(
            _ file: String,
            _ account: MountedAccount,
            _ others: [String: String],
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            var told = try told(file, by: account)
            let number = try account.shell("stat -c %i '\(file)'").dropLast()
            #expect(told.removeValue(forKey: "item-id") == String(number), sourceLocation: sourceLocation)
            #expect(told.removeValue(forKey: "docid")?.isEmpty == false, sourceLocation: sourceLocation)
            #expect(
                told.removeValue(forKey: "container-display-name")?.isEmpty == false,
                sourceLocation: sourceLocation
            )
            #expect(told == Self.usual.merging(others) { $1 }, sourceLocation: sourceLocation)
        }

        @Test func `each attribute says what is so, and only those that may be are set`() async throws {
            try await mounted(options: "settle=50ms") { account in
                let here = ["downloading-status": "Current", "percent-downloaded": "100", "download-requested": "0"]
                let sent = ["is-ubiquitous": "1", "is-uploaded": "1", "percent-uploaded": "100"]
                try account.shell("$COVE pause; echo one > f")
                try expect(
                    "f",
                    account,
                    here.merging(["is-ubiquitous": "1", "is-uploaded": "0", "percent-uploaded": "0"]) { $1 }
                )
                try account.shell("$COVE resume; $COVE sync --wait")
                try expect("f", account, here.merging(sent) { $1 })
                try account.shell("$COVE evict f")
                let away = [
                    "downloading-status": "NotDownloaded", "percent-downloaded": "0", "download-requested": "0",
                ]
                try expect("f", account, away.merging(sent) { $1 })
                try account.shell("setfattr -n user.cove.tags -v '[\"red\"]' f; setfattr -n user.cove.pinned -v 1 f")
                try waitUntil("it is fetched") { try told("f", by: account)["downloading-status"] == "Current" }
                try account.shell("$COVE sync --wait")
                let pinned = ["download-requested": "1", "tags": "[\"red\"]", "content-policy": "eagerly"]
                try expect("f", account, here.merging(sent) { $1 }.merging(pinned) { $1 })
                try account.shell(
                    "$COVE unpin f; setfattr -x user.cove.tags f; setfattr -n user.cove.excluded-from-sync -v 1 f"
                )
                let excluded = try told("f", by: account)
                #expect(excluded["excluded-from-sync"] == "1" && excluded["is-ubiquitous"] == "0", "\(excluded)")
                // Nobody finds them in a list, or sets what is only told.
                #expect(try account.shell("getfattr -m - f") == "")
                for name in ["is-uploaded", "downloading-status", "item-id", "docid", "is-external", "none-such"] {
                    for call in ["-n user.cove.\(name) -v 1", "-x user.cove.\(name)"] {
                        let result = try account.start("setfattr \(call) f").wait(deadline: 20)
                        #expect(result.status != 0 && result.error.contains("not permitted"), "\(call): \(result)")
                    }
                }
            }
        }

        @Test func `what could not be sent or fetched says why`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.put("far", Array("far away".utf8))
                let account = try MountedAccount(options: "settle=50ms,poll=1s,stall-limit=2s", address: cloud.source)
                try account.start()
                try account.shell("ls -l")
                cloud.answer { ["PUT", "GET"].contains($0.method) ? ScriptedServer.answer(507) : nil }
                try account.shell("echo near > near; cat far || true")
                try waitUntil("both are told", deadline: 60) {
                    let near = try told("near", by: account)["uploading-error"]
                    return try near != nil && told("far", by: account)["downloading-error"] != nil
                }
                // What is refused here is there, whole.
                #expect(try account.shell("cat near") == "near\n")
                #expect(try told("near", by: account)["downloading-error"] == nil)
                #expect(try told("far", by: account)["uploading-error"] == nil)
                cloud.answer { _ in nil }
                try account.shell("$COVE sync --wait; cat far")
                for name in ["near", "far"] {
                    let told = try told(name, by: account)
                    #expect(told["uploading-error"] == nil && told["downloading-error"] == nil, "\(told)")
                }
                try account.end()
            }
        }

        @Test func `75. and 76. to whom a document was given it is external, and to nobody else`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                let path = try account.pick("a/Documents/report.txt", for: "b")
                func ask(_ path: String, _ app: String) throws -> [String] {
                    let names = ["is-external", "url-in-local-container", "container-display-name"]
                    let calls = names.map {
                        "getfattr --only-values -n user.cove.\($0) \(path) 2>&1; echo"
                    }
                    let text = try account.asApp(app, calls.joined(separator: "; "))
                    return text.split(separator: "\n").map { $0.hasSuffix("No such attribute") ? "none" : String($0) }
                }
                #expect(try ask("Documents/report.txt", "b") == ["1", "file://\(account.mount)/\(path)", "a"])
                #expect(try ask("Documents/own.txt", "b") == ["0", "none", "b"])
                #expect(try ask("Documents/report.txt", "a") == ["0", "none", "a"])
                let mine = try told("a/Documents/report.txt", by: account)
                #expect(mine["is-external"] == "0" && mine["url-in-local-container"] == nil)
                #expect(mine["container-display-name"] == "a")
            }
        }
    }
}
