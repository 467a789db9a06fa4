import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Documents that are packages, on a mount.
    struct KitPackageTests {
        private static let large = 8 << 20

        private func album(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await mounted { source in
                try source.makeDirectory("a.album")
                try source.save("a.album/text", Array("old".utf8))
                try source.save("a.album/film", [UInt8](repeating: 7, count: Self.large))
            } _: { account in
                try body(account)
            }
        }

        @Test func `a package's document saves after its files were sent, and not over what others wrote in it`()
            async throws
        {
            try await album { account in
                let gates = try ["one", "two", "three"].map { try account.gate($0) }
                let program = try account.driver(
                    "open \(account.path("a.album"))",
                    "edit mine",
                    "save",
                    "gate \(gates[0])",
                    "edit mine again",
                    "save",
                    "gate \(gates[1])",
                    "edit lost",
                    "gate \(gates[2])",
                    "save",
                    "revert",
                    "close"
                )
                try program.says("saved")
                // What the cloud's daemon does to the files is no edit of anybody.
                try account.settle()
                try account.shell("getfattr -n user.cove.package --only-values a.album | grep -qx 1")
                try gates[0].open(for: program)
                try waitUntil("it is saved again: \(program.lines)") {
                    program.lines.filter { $0 == "saved" }.count == 2
                }
                try account.settle()
                try gates[1].open(for: program)
                try account.shell("printf theirs > a.album/note")
                try gates[2].open(for: program)
                let lines = try program.finish()
                #expect(lines.contains { $0.hasPrefix("failed: 116 ") }, "\(lines)")
                #expect(lines.suffix(2) == ["reverted: mine again", "closed"])
                #expect(
                    try account.shell("cat a.album/text a.album/note; ls -A; ls -A a.album")
                        == "mine againtheirsa.album\nfilm\nnote\ntext\n"
                )
                try account.expectSame()
            }
        }

        @Test func `8. what a document declares is a package for all from its opening on, until nothing says so`()
            async throws
        {
            try await mounted { account in
                try account.shell("mkdir a.folio; printf old > a.folio/text")
                let held = "touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done"
                let holding = "rm -f $tmp/held $tmp/go; $COVE coordinate --writing a.folio/x -- sh -c '\(held)'"
                let beside = "$COVE coordinate -w 0 -E 9 --writing a.folio/y -- true && echo free || echo $?"
                func open() throws -> [String] {
                    try account.driver("open \(account.path("a.folio"))", "close").finish()
                }
                func isFree() throws -> String {
                    let holder = try account.start(holding)
                    try account.waitForMark("held")
                    defer { _ = try? account.shell("touch $tmp/go; rm $tmp/held") }
                    let said = try account.shell(beside)
                    try account.shell("touch $tmp/go")
                    #expect(try holder.wait(deadline: 60).status == 0)
                    return said
                }
                #expect(try isFree() == "free\n")
                #expect(try open() == ["open: old", "closed"])
                #expect(try account.shell("getfattr -n user.cove.package --only-values a.folio") == "1")
                #expect(try isFree() == "9\n")
                try account.shell("setfattr -x user.cove.package a.folio")
                #expect(try isFree() == "free\n")
                // What says no is asked by nobody.
                try account.shell("setfattr -n user.cove.package -v 0 a.folio")
                #expect(try open() == ["open: old", "closed"])
                #expect(try isFree() == "free\n")
            }
        }

        @Test func `a small edit of a large package sends a small part of it`() async throws {
            try await album { account in
                let program = try account.driver("open \(account.path("a.album"))", "edit mine", "save", "close")
                #expect(try program.finish() == ["open: old", "saved", "closed"])
                try account.expectSame()
                #expect(try (1..<1 << 20).contains(account.statistics().bytesUploaded))
            }
        }
    }
}
