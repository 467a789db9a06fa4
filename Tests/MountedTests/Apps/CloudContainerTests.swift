import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Apps, containers and references on real servers, on two devices.
    struct CloudContainerTests {
        /// What the document of a container may be that no device can read.
        enum Unreadable: String, CaseIterable {
            case text = "no json"
            case other = #"{"identifier": 5}"#
            case large

            var bytes: String { self == .large ? String(repeating: " ", count: 2_000_000) : rawValue }
        }

        @Test(arguments: Unreadable.allCases)
        func `a folder whose document can't be read is no app's, and others of such names are everybody's`(
            record: Unreadable
        ) async throws {
            try await mounted(options: "settle=50ms,poll=200ms") { account in
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                let source = SourceFolder(account.source.path)
                try source.write("_cove-drive/containers/com.x.box.json", record.bytes)
                try source.write("com.x.box/Documents/secret.txt", "classified\n")
                try source.write("my.folder/f", "shared\n")
                try account.waitFor("shared\nclassified\n", "cat my.folder/f com.x.box/Documents/secret.txt")
                let script = "cat my.folder/f com.x.box/Documents/secret.txt; ls; ls com.x.box; echo end"
                var said = ""
                try waitUntil("what is no container's is everybody's: \(said)") {
                    said = try account.asApp("b", "cd \"$COVE_SHARED\"; \(script)")
                    return said.contains("shared\n")
                }
                #expect(!said.contains("classified") && !said.contains("\nDocuments\n"), "\(said)")
                try account.expectRefusal(
                    "$COVE pick --app com.b.app --mode open --choose com.x.box/Documents/secret.txt",
                    "$mnt/com.x.box/Documents/secret.txt: it is offered to no app; choose a document of the root or of a public container"
                )
            }
        }

        @Test func `while a container of another device arrives no other app reads a byte of it`() async throws {
            try await SharedSource.folder.devices { here, there, _ in
                try here.addApp("b", document: "own.txt", "own\n")
                try here.settle()
                try there.waitFor("own\n", "cat b/Documents/own.txt")
                let program = try here.start(
                    "$COVE run --app com.b.app -- bash -c 'until [ -e Documents/end ]; do cat \"$COVE_SHARED\"/*/Documents/*; done' 2>/dev/null || true"
                )
                for number in 1...5 {
                    try there.cove("container create com.c\(number).box --app com.c.app --name C\(number)")
                    try there.shell("echo classified > C\(number)/Documents/secret.txt; $COVE sync --wait")
                    try waitUntil("it is here") {
                        (try? here.shell("cat C\(number)/Documents/secret.txt")) == "classified\n"
                    }
                }
                try here.shell("touch b/Documents/end")
                let said = try program.wait(deadline: 60).output
                #expect(said.contains("own\n") && !said.contains("classified"), "\(said.count)")
            }
        }

        @Test(arguments: SharedSource.all + [.program])
        func `containers, their names and references are the same on two devices`(source: SharedSource) async throws {
            try await source.devices(isMounted: false) { here, there, _ in
                try here.start()
                try here.addApp("a", document: "report.txt", "original\n")
                try here.addApp("b", document: "own.txt", "own\n")
                try here.settle()
                try there.start()
                // The other device has them by name before it has listed anything.
                #expect(try there.shell("cat a/Documents/report.txt") == "original\n")
                let names = try there.shell("ls")
                #expect(names == "a\nb\n")
                try here.pick("a/Documents/report.txt", for: "b")
                try here.shell("mv a Letters; echo more >> b/Documents/report.txt")
                try here.settle()
                // What apps are given is not written to somebody's own program: there each device has its own references.
                let isTold = source.testDescription != SharedSource.program.testDescription
                let document = isTold ? "b/Documents/report.txt" : "Letters/Documents/report.txt"
                try there.waitFor("Letters\nb\noriginal\nmore\n", "ls; cat \(document) || true")
                // The kernel hears of it a moment after it is there.
                try there.waitFor(isTold ? "own.txt\nreport.txt\n" : "own.txt\n", "ls b/Documents")
                // What was not sent before the name changed goes where it belongs.
                try there.shell(
                    """
                    $COVE pause; echo late > Letters/Documents/late.txt; mv Letters Post; echo later > Post/Documents/later.txt
                    $COVE resume; $COVE sync --wait
                    """
                )
                try here.waitFor("Post\nb\nlate\nlater\n", "ls; cat Post/Documents/late* || true")
                try there.settle()
                #expect(
                    try here.shell("cd Post; find . -type f | sort") == there.shell("cd Post; find . -type f | sort")
                )
                try here.shell("rm b/Documents/report.txt")
                try here.settle()
                try waitUntil("it is taken back there", deadline: 60) {
                    try there.settle()
                    return try there.cove("grants ls") == ""
                }
                #expect(try there.shell("cat Post/Documents/report.txt; ls b/Documents") == "original\nmore\nown.txt\n")
                for device in [here, there] { #expect(try device.cove("conflicts") == "") }
            }
        }
    }
}

extension MountedAccount {
    /// Settles until a script prints what is expected; says what it printed last where it never does.
    fileprivate func waitFor(_ expected: String, _ script: String) throws {
        var last = ""
        do {
            try waitUntil("the device has it", deadline: 60) {
                try settle()
                last = try shell("{ \(script); } 2>&1")
                return last == expected
            }
        } catch {
            throw CommandFailure("\(error)\nof\n\(script)\nin place of\n\(expected)last:\n\(last)")
        }
    }
}
