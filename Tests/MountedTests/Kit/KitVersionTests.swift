import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Versions as programs on CoveKit use them.
    struct KitVersionTests {
        @Test func `36. a version takes its document's place inside a coordinated write`() async throws {
            try await mounted { source in
                try source.save("doc", Array("one".utf8))
            } _: { account in
                try account.shell("cat doc; printf two > doc")
                try account.settle()
                let (file, gate) = (account.path("doc"), try account.gate("go"))
                let presenter = try account.driver("open \(file)", "watch one", "gate \(gate)", "close")
                try presenter.says("open: two")
                let program = try account.driver("recover \(file)", "versions \(file)")
                let lines = try program.finish()
                #expect(lines.first == "recovered one" && lines.contains { $0.hasSuffix(": two") }, "\(lines)")
                try presenter.says("watched one")
                try gate.open(for: presenter)
                #expect(try presenter.finish().last == "closed")
                #expect(try account.shell("cat doc") == "one")
                try account.expectSame()
            }
        }

        @Test func `who opens a file once it is restored opens what it was restored to`() async throws {
            try await mounted { source in
                try source.save("doc", Array("one".utf8))
            } _: { account in
                // In a folder that nobody has listed the kernel is told of the change after it.
                try account.shell("cat doc; printf two > doc")
                try account.settle()
                #expect(try account.driver("swap \(account.path("doc")) 50").finish() == ["swapped"])
                try account.expectSame()
            }
        }

        @Test func `36. a version has a place to be read, and says what is here and whose it is`() async throws {
            try await mounted { source in
                try source.save("doc", Array("one".utf8))
            } _: { account in
                let file = account.path("doc")
                // Only what is here is said to be.
                #expect(try account.driver("describe \(file)").finish() == ["current dataless resolved"])
                try account.shell("cat doc; printf two > doc; ln -s doc link")
                try account.settle()
                try account.shell("printf three > doc")
                try account.settle()
                let document = try account.info("doc").documentID
                for path in [file, account.path("link")] {
                    let lines = try account.driver("describe \(path)").finish()
                    #expect(lines.count == 3 && lines[0] == "current local resolved", "\(lines)")
                    #expect(lines[1].hasPrefix("version local resolved .cove/versions/\(document)/"))
                    #expect(lines[1].hasSuffix(" two") && lines[2].hasSuffix(" one"))
                    let owner = try account.shell("getent passwd $(id -u) | cut -d: -f5 | cut -d, -f1").dropLast()
                    let user = try account.shell("id -un").dropLast()
                    #expect(lines[1].contains(" by \(owner.isEmpty ? user : owner) "), "\(lines[1])")
                    // Another device has saved the first.
                    #expect(!lines[2].contains(" by "))
                }
            }
        }

        @Test func `36. a package is here when all files in it are, and is not fetched to find out`() async throws {
            try await mounted { source in
                try source.makeDirectory("a.rtfd")
                try source.makeDirectory("a.rtfd/pages")
                for name in ["a.rtfd/text", "a.rtfd/pages/1", "far"] { try source.save(name, Array("text".utf8)) }
            } _: { account in
                let package = account.path("a.rtfd")
                let residency = { try account.driver("residency \(package)").finish() }
                #expect(try residency() == ["dataless"])
                // Listed, all its directories are here, and none of its files.
                try account.shell("ls -R a.rtfd; ln -s ../far a.rtfd/link")
                try account.settle()
                #expect(try residency() == ["dataless"])
                for name in ["a.rtfd/text", "a.rtfd/pages/1"] { #expect(try account.info(name).state == "dataless") }
                try account.shell("$COVE download --wait a.rtfd")
                #expect(try residency() == ["local"])
                // What a link in it points at is not in it.
                #expect(try account.info("far").state == "dataless")
                try account.shell("$COVE evict a.rtfd/pages/1")
                #expect(try residency() == ["dataless"])
            }
        }

        @Test func `36. resolving says whether there was something to resolve`() async throws {
            try await mounted { source in
                try source.save("doc", Array("base".utf8))
            } _: { account in
                let second = try MountedAccount(address: "dir://\(account.source.path)")
                try second.start()
                try account.shell("cat doc; $COVE pause --state $STATE; printf here > doc")
                try second.shell("cat doc > $tmp/seen; printf elsewhere > doc")
                try second.settle()
                try account.shell("$COVE resume --state $STATE")
                try account.settle()
                let file = account.path("doc")
                let before = try account.driver("describe \(file)").finish()
                #expect(before.last?.hasPrefix("conflict local unresolved doc (conflict") == true, "\(before)")
                // Its bytes may go again, as any file's.
                try account.settle()
                try account.shell("$COVE evict doc\\ \\(conflict*")
                let lines = try account.driver("describe \(file)", "resolve \(file)", "describe \(file)").finish()
                #expect(
                    lines[0] == "current dataless resolved" && lines[1].hasPrefix("version local resolved .cove/")
                        && lines[2].hasPrefix("conflict dataless unresolved doc (conflict"),
                    "\(lines)"
                )
                #expect(
                    lines.contains("resolved 1 of 1, again 0") && lines.last?.hasPrefix("conflict") == false,
                    "\(lines)"
                )
                try second.end()
            }
        }
    }
}
