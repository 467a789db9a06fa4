import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Conflicts as all devices of an account know them.
    struct KitConflictTests {
        private static let sources = SharedSource.all.filter(\.showsDotNames)

        /// One device changes a document while the other, which is apart, changes it too: that one finds the conflict.
        private static func clash(_ here: MountedAccount, _ there: MountedAccount, _ round: String) throws {
            try there.shell("cat doc > $tmp/seen; $COVE pause --state $STATE; printf 'there \(round)' > doc")
            try here.shell("printf 'here \(round)' > doc")
            try here.settle()
            try there.shell("$COVE resume --state $STATE")
            for device in [there, here] { try device.settle() }
        }

        private static func expectConflict(_ devices: MountedAccount..., round: String) throws {
            for device in devices {
                let name = try device.shell("uname -n").dropLast()
                let listed = try device.cove("conflicts", as: [ConflictStatus].self)
                #expect(listed.map(\.path) == ["doc"] && listed.map(\.host) == [String(name)], "\(listed)")
                let versions = try device.cove("versions ls doc", as: [VersionStatus].self).filter(\.isConflict)
                #expect(versions.map(\.conflictPath) == listed.map(\.copyPath))
                let copy = try #require(versions.first)
                #expect(try device.cove("versions show doc \(copy.id); cat doc") == "there \(round)here \(round)")
                #expect(try device.shell("getfattr --only-values -n user.cove.conflicts doc") == "1")
            }
        }

        private static func expectNone(_ devices: MountedAccount..., files: String) throws {
            for device in devices {
                #expect(try device.cove("conflicts") == "")
                #expect(try device.shell("getfattr --only-values -n user.cove.conflicts doc") == "0")
                #expect(try device.shell("cat doc*; ls | sed 's/ [-0-9]* [0-9]*)/)/'") == files)
            }
        }

        @Test(arguments: sources)
        func `36. a conflict is known on every device, and ends on all once one has dealt with it`(
            source: SharedSource
        ) async throws {
            try await source.devices { here, there, _ in
                try here.shell("printf base > doc")
                for device in [here, there] { try device.settle() }
                for device in [here, there] { try device.shell("ls") }
                let program = try here.driver("open \(here.path("doc"))", "watch conflict", "watch resolved")
                try program.says("open: base")
                try Self.clash(here, there, "1")
                try Self.expectConflict(here, there, round: "1")
                try program.says("watched conflict")
                // The device that did not find it deals with it, and all files stay.
                try here.shell("$COVE versions resolve doc")
                try program.says("watched resolved")
                try here.expectRefusal(
                    "$COVE versions resolve doc",
                    "doc: it has no conflict; `cove conflicts` lists those that there are"
                )
                for device in [here, there] { try device.settle() }
                let name = try here.shell("uname -n").dropLast()
                let files = "doc\ndoc (from \(name))\n"
                try Self.expectNone(here, there, files: "here 1there 1\(files)")
                // Without a connection, too, the others hear of it later.
                try here.shell("rm doc\\ *")
                for device in [here, there] { try device.settle() }
                try Self.clash(here, there, "2")
                try Self.expectConflict(here, there, round: "2")
                try there.shell("$COVE pause --state $STATE; $COVE versions resolve doc")
                try Self.expectNone(there, files: "here 2there 2\(files)")
                try Self.expectConflict(here, round: "2")
                try there.shell("$COVE resume --state $STATE")
                for device in [there, here] { try device.settle() }
                try Self.expectNone(here, there, files: "here 2there 2\(files)")
                _ = try program.finish()
            }
        }

        @Test(arguments: sources)
        func `36. devices that are apart and decide a conflict alike, or write the same, make no new one`(
            source: SharedSource
        ) async throws {
            try await source.devices { here, there, _ in
                let devices = [here, there]
                try here.shell("printf base > doc")
                for device in devices { try device.settle() }
                for device in devices { try device.shell("ls") }
                try Self.clash(here, there, "1")
                try Self.expectConflict(here, there, round: "1")
                let sample = try Command.built("ResolveConflict")
                /// Both do it without a connection.
                func apart(_ script: String) throws {
                    for device in devices { try device.shell("$COVE pause --state $STATE; \(script)") }
                    for device in devices {
                        try device.shell("$COVE resume --state $STATE")
                        try device.settle()
                    }
                    for device in devices { try device.settle() }
                }
                try apart("echo 1 | \(sample) doc")
                for device in devices {
                    #expect(try device.shell("ls; cat doc; $COVE conflicts") == "doc\nthere 1")
                }
                try apart("printf 'same on both' > doc; touch -d @1700000000 doc")
                for device in devices {
                    #expect(try device.shell("ls; cat doc; $COVE conflicts") == "doc\nsame on both")
                }
                // Of one length, and not the same.
                try here.shell("$COVE pause --state $STATE; printf 'more on both' > doc")
                try there.shell("printf 'less on both' > doc")
                try there.settle()
                try here.shell("$COVE resume --state $STATE")
                for device in [here, there] { try device.settle() }
                for device in devices {
                    #expect(try device.shell("cat doc*; ls | wc -l") == "less on bothmore on both2\n")
                }
            }
        }

        @Test func `36. a program that goes on writing keeps no version of the same length from the others`()
            async throws
        {
            let source = try #require(Self.sources.first)
            try await source.devices { here, there, _ in
                try here.shell("printf base > doc")
                for device in [here, there] { try device.settle() }
                for device in [here, there] { try device.shell("ls; cat doc") }
                let writer = try there.start(
                    """
                    exec python3 -c "
                    import os, time
                    with open('doc', 'r+') as file:
                        while not os.path.exists(os.environ['tmp'] + '/enough'):
                            file.seek(0); file.write('ours'); file.flush()
                            open(os.environ['tmp'] + '/writes', 'w').close()
                            time.sleep(0.05)
                    "
                    """
                )
                try waitUntil("it writes") { try there.shell("ls $tmp").contains("writes\n") }
                try here.shell("printf them > doc")
                try here.settle()
                try waitUntil("the other version is shown") {
                    try there.shell("$COVE sync --state $STATE; cat doc") == "them"
                }
                try there.shell("touch $tmp/enough")
                #expect(try writer.wait(deadline: 60).status == 0)
                for device in [there, here, there] { try device.settle() }
                for device in [there, here] { #expect(try device.shell("cat doc*") == "themours") }
            }
        }

        @Test func `36. the sample asks which side is to stay, and ends the conflict for all`() async throws {
            let source = try #require(Self.sources.first)
            try await source.devices { here, there, _ in
                try here.shell("printf base > doc")
                for device in [here, there] { try device.settle() }
                for device in [here, there] { try device.shell("ls") }
                try Self.clash(here, there, "1")
                let sample = try Command.built("ResolveConflict")
                let asked = try here.shell("echo none | \(sample) doc")
                #expect(
                    asked.hasSuffix(
                        "here 1\n1  by \(try here.shell("uname -n").dropLast())  there 1\nwhich one is to stay?\nall stay\n"
                    )
                )
                #expect(try here.shell("echo 1 | \(sample) doc | tail -1") == "1 stays\n")
                for device in [here, there] { try device.settle() }
                for device in [here, there] {
                    #expect(try device.shell("ls; cat doc; $COVE conflicts") == "doc\nthere 1")
                }
                #expect(try here.shell("\(sample) doc") == "there is no conflict\n")
                #expect(try Command(sample).wait(deadline: 60).status == 2)
            }
        }

        @Test
        func `36. who deletes a side of a conflict has dealt with it, and a device that comes later sees the rest`()
            async throws
        {
            let source = try #require(Self.sources.first)
            try await source.devices(isMounted: false) { here, there, _ in
                try here.start()
                // Files that merely have such names are listed, too.
                try here.shell(
                    "printf base > doc; printf a > a; printf b > 'a (conflict from elsewhere 2024-02-30 120000)'"
                )
                try here.shell(
                    "printf c > 'a (conflict from else where 2024-02-29 120000 2)'; mkdir 'b (conflict from x'"
                )
                try here.settle()
                try there.start()
                for device in [here, there] { try device.shell("ls; cat doc") }
                try Self.clash(here, there, "1")
                for device in [here, there] {
                    let listed = try device.cove("conflicts", as: [ConflictStatus].self)
                    #expect(Set(listed.map(\.path)) == ["a", "doc"] && listed.count == 3, "\(listed)")
                    #expect(Set(listed.map(\.host)).isSuperset(of: ["elsewhere", "else where"]), "\(listed)")
                }
                try there.shell("rm doc\\ *; mv a\\ *2024-02-29* kept; rm a\\ *2024-02-30*")
                for device in [there, here] { try device.settle() }
                for device in [here, there] {
                    #expect(try device.cove("conflicts") == "")
                    #expect(try device.shell("cat a kept doc") == "achere 1")
                }
            }
        }

        @Test func `36. whoever presents a file, or asks for its versions, has its folder listed for conflicts`()
            async throws
        {
            let source = try #require(Self.sources.first)
            try await source.devices(isMounted: false) { here, there, _ in
                try here.start()
                for folder in ["presented", "asked", "ended"] {
                    try here.shell(
                        """
                        mkdir \(folder); printf base > \(folder)/doc
                        printf other > '\(folder)/doc (conflict from elsewhere 2024-02-29 120000)'
                        """
                    )
                }
                try here.settle()
                try there.start()
                #expect(try there.shell("cat presented/doc asked/doc ended/doc; $COVE conflicts") == "basebasebase")
                let program = try there.driver("open \(there.path("presented/doc"))", "watch conflict")
                try program.says("watched conflict")
                let versions = try there.cove("versions ls asked/doc", as: [VersionStatus].self)
                #expect(versions.map(\.host) == ["elsewhere"] && versions.allSatisfy(\.isConflict))
                try there.shell("$COVE versions resolve ended/doc")
                let listed = try there.cove("conflicts", as: [ConflictStatus].self)
                #expect(Set(listed.map(\.path)) == ["presented/doc", "asked/doc"], "\(listed)")
                for device in [there, here] { try device.settle() }
                #expect(try here.shell("ls ended") == "doc\ndoc (from elsewhere 2024-02-29 120000)\n")
                _ = try program.finish()
            }
        }
    }
}
