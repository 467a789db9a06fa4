import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Documents of several processes on a mount; the numbers are those of the acceptance checklist.
    struct KitDocumentTests {
        @Test func `28, 29. what one process saves another opens`() async throws {
            try await mounted { account in
                let file = account.path("Grüße.txt")
                let writer = try account.driver("create \(file) Zażółć 🌊", "state", "close", "state")
                #expect(try writer.finish() == ["open: Zażółć 🌊", "state 0", "closed", "state 1"])
                #expect(try account.driver("open \(file)", "state").finish() == ["open: Zażółć 🌊", "state 0"])
                let missing = try account.driver("open \(account.path("none"))", "state").finish()
                #expect(missing.first?.hasPrefix("failed: 2 ") == true && missing.last == "state 1")
                try account.expectSame()
            }
        }

        @Test func `30. a process that dies in a save leaves the old contents and nothing to see`() async throws {
            try await mounted { account in
                let file = account.path("doc")
                let dying = try account.driver("create \(file) old", "crash", "edit new", "save").wait(deadline: 60)
                #expect(dying.status == 137)
                #expect(try account.shell("cat doc; ls") == "olddoc\n")
                try account.crash()
                try account.start()
                #expect(try account.shell("cat doc; ls") == "olddoc\n")
                #expect(try account.driver("open \(file)", "edit newer", "close").finish() == ["open: old", "closed"])
                #expect(try account.shell("cat doc; ls -A") == "newerdoc\n")
                // What was left behind never went to the cloud.
                try account.settle()
                #expect(try account.shell("ls -A $src | grep -v '^.cove'") == "doc\n")
                try account.expectSame()
            }
        }

        @Test func `33. an open document stays here, a closed one may go`() async throws {
            try await mounted { source in
                try source.save("doc", Array("text".utf8))
            } _: { account in
                let (file, gate) = (account.path("doc"), try account.gate("go"))
                let program = try account.driver("open \(file)", "gate \(gate)", "edit more", "close", "gate \(gate)")
                try program.says("open: text")
                let refused = try account.start("$COVE evict doc").wait(deadline: 60)
                #expect(refused.status == 1 && refused.error.hasPrefix("cove: doc: "))
                try gate.open(for: program)
                try program.says("closed")
                try account.settle()
                try account.shell("$COVE evict doc")
                #expect(try account.info("doc").state == "dataless")
                #expect(try account.shell("cat doc") == "more")
                try gate.open(for: program)
                try account.expectSame()
            }
        }

        @Test(arguments: [
            "sed -i.orig s/old/new/ F", "cp -b -S .orig $tmp/new F", "install -b -S .orig $tmp/new F",
            "mv F F.orig; touch F; cat $tmp/new >> F", "mv F F.orig; cp $tmp/new T; mv T F",
        ]) func `a document keeps its name through a backup, and saves there`(save: String) async throws {
            try await mounted { source in
                try source.save("F", Array("old".utf8))
            } _: { account in
                try account.shell("printf new > $tmp/new")
                let (file, gate) = (account.path("F"), try account.gate("go"))
                let program = try account.driver(
                    "open \(file)",
                    "watch new",
                    "url",
                    "edit mine",
                    "autosave",
                    "url",
                    "say saved",
                    "gate \(gate)",
                    "close"
                )
                try program.says("open: old")
                try account.shell(save)
                try program.says("saved")
                #expect(try account.shell("cat F; echo; cat F.orig") == "mine\nold")
                try gate.open(for: program)
                let said = try program.finish()
                #expect(said == ["open: old", "watched new", "url \(file)", "url \(file)", "saved", "closed"])
                #expect(try account.shell("ls") == "F\nF.orig\n")
                try account.expectSame()
            }
        }

        @Test func `a document comes back from a backup that takes its time, and does not save there by itself`()
            async throws
        {
            try await mounted { source in
                for name in ["F", "G"] { try source.save(name, Array("old".utf8)) }
            } _: { account in
                let gate = try account.gate("go")
                // One has something to save while its file is a backup, the other one has not.
                let (edited, idle) = (account.path("F"), account.path("G"))
                let first = try account.driver(
                    "interval 100",
                    "open \(edited)",
                    "at \(edited).1",
                    "edit mine",
                    "gate \(gate)",
                    "at \(edited)",
                    "watch failure",
                    "text",
                    "revert",
                    "edit again",
                    "watch saved",
                    "close"
                )
                let second = try account.driver("open \(idle)", "at \(idle).1", "at \(idle)", "watch new")
                for program in [first, second] { try program.says("open: old") }
                try account.shell("mv F F.1; mv G G.1")
                try first.says("at \(edited).1")
                try second.says("at \(idle).1")
                // Ten times the age at which it saves by itself.
                #expect(try account.shell("sleep 1; stat -c %s F.1; cat G.1") == "3\nold")
                try account.shell("touch F G; printf new >> F; printf new >> G")
                try gate.open(for: first)
                #expect(try second.finish() == ["open: old", "at \(idle).1", "at \(idle)", "watched new"])
                try first.says("reverted: new")
                #expect(
                    try first.finish() == [
                        "open: old", "at \(edited).1", "at \(edited)", "watched failure", "text: mine", "reverted: new",
                        "watched saved", "closed",
                    ]
                )
                #expect(try account.shell("cat F F.1 G G.1") == "againoldnewold")
                try account.expectSame()
            }
        }

        @Test func `34. a document follows what other programs write`() async throws {
            try await mounted { source in
                try source.save("doc", Array("old".utf8))
            } _: { account in
                let file = account.path("doc")
                let gate = try account.gate("go")
                let program = try account.driver(
                    "open \(file)",
                    "watch theirs",
                    "watch plain",
                    "watch elsewhere",
                    "edit mine",
                    "say edited",
                    "gate \(gate)",
                    "autosave",
                    "revert"
                )
                try program.says("open: old")
                _ = try account.driver("write \(file) theirs").finish()
                try program.says("watched theirs")
                try account.shell("printf plain > doc")
                try program.says("watched plain")
                try account.settle()
                try account.source.save("doc", Array("elsewhere".utf8))
                try account.settle()
                try program.says("edited")
                _ = try account.driver("read \(file)").finish()
                try gate.open(for: program)
                #expect(try program.finish().last == "reverted: mine")
                #expect(try account.shell("cat doc") == "mine")
                try account.expectSame()
            }
        }

        @Test func `35. a document follows its file, and closes when that is deleted`() async throws {
            try await mounted { source in
                try source.save("doc", Array("old".utf8))
            } _: { account in
                let (file, new) = (account.path("doc"), account.path("d/new"))
                try account.shell("mkdir d")
                let gate = try account.gate("go")
                let program = try account.driver(
                    "open \(file)",
                    "gate \(gate)",
                    "url",
                    "edit more",
                    "save",
                    "watch closed",
                    "state"
                )
                try program.says("open: old")
                #expect(try account.driver("move \(file) \(new)", "read \(new)").finish() == ["moved", "read: old"])
                try gate.open(for: program)
                try program.says("saved")
                #expect(program.lines.contains("url \(new)"))
                #expect(try account.shell("cat d/new; ls") == "mored\n")
                try account.shell("rm d/new")
                #expect(try program.finish().suffix(2) == ["watched closed", "state 1"])
                try account.expectSame()
            }
        }

        @Test func `36. a conflict is seen, told apart and dealt with, for both devices`() async throws {
            try await mounted { source in
                try source.save("doc", Array("base".utf8))
            } _: { account in
                let second = try MountedAccount(address: "dir://\(account.source.path)")
                try second.start()
                let file = account.path("doc")
                let program = try account.driver("open \(file)", "watch conflict", "watch resolved", "revert", "close")
                try program.says("open: base")
                try account.shell("$COVE pause --state $STATE; printf here > doc")
                try second.shell("cat doc > $tmp/seen; printf elsewhere > doc")
                try second.settle()
                try account.shell("$COVE resume --state $STATE")
                try account.settle()
                try program.says("watched conflict")
                let device = try account.shell("uname -n").dropLast()
                let listed = try account.driver("versions \(file)").finish()
                #expect(listed.contains("version conflict \(device) today: here"), "\(listed)")
                let resolving = try account.driver("choose \(file)", "forget \(file)", "resolve \(file)")
                #expect(try resolving.finish() == ["done", "done", "resolved 0 of 0, again 0", "done"])
                #expect(try program.finish().suffix(3) == ["watched resolved", "reverted: here", "closed"])
                try account.expectSame()
                try second.settle()
                for one in [account, second] {
                    #expect(
                        try one.shell("ls; cat doc; getfattr -n user.cove.conflicts --only-values doc") == "doc\nhere0"
                    )
                }
                try second.end()
            }
        }

        @Test func `37. on a read-only mount a save fails, and the document stays unsaved`() async throws {
            try await mounted(options: "ro") { source in
                try source.save("doc", Array("old".utf8))
            } _: { account in
                let file = account.path("doc")
                let program = try account.driver("open \(file)", "edit new", "save", "state", "autosave", "text")
                let lines = try program.finish()
                #expect(lines.count == 5 && lines[0] == "open: old" && lines[1].hasPrefix("failed: 30 "))
                #expect(lines[2] == "state 4" && lines[3].hasPrefix("failed: 30 ") && lines[4] == "text: new")
            }
        }

        @Test func `the sample finds or makes its document, edits it and watches it`() async throws {
            try await mounted { account in
                let sample = try Command.built("TextDocument")
                let first = try Command(sample, [account.mount])
                try first.says("watching test.txt")
                #expect(first.lines == ["created: (default value)", "watching test.txt"])
                let second = try Command(sample, [account.mount, "more"])
                try second.says("watching test.txt")
                #expect(second.lines.first == "opened: (default value)")
                try first.says("changed: (default value)")
                try first.says("more")
                try account.shell("printf plain > test.txt")
                for program in [first, second] { try program.says("changed: plain") }
                try account.shell("rm test.txt")
                for program in [first, second] { #expect(try program.finish().last == "closed") }
                try account.shell("mkdir d; touch test.txt d/test.txt")
                let refused = try Command(sample, [account.mount]).wait(deadline: 60)
                #expect(refused.status == 1 && refused.output == "there are 2 files test.txt; nothing is opened\n")
                try account.expectSame()
            }
        }
    }
}
