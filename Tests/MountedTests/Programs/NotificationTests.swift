import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What changes elsewhere is seen by those who watch, and by nobody who has the old one open.
    struct NotificationTests {
        @Test func `inotify reports what another device did`() async throws {
            try await mounted { source in
                for name in ["doc", "old", "gone"] { try source.save(name, Array("1".utf8)) }
            } _: { account in
                let watch = try account.start("ls -l >/dev/null; exec inotifywait -m --format '%e %f' .")
                try waitUntil("inotifywait watches") { watch.error.contains("Watches established") }
                func expect(_ lines: String..., after change: () throws -> Void) throws {
                    try change()
                    for line in lines {
                        try waitUntil("\(line)") { watch.output.contains(line + "\n") }
                    }
                }
                try expect("MOVED_TO new") { try account.source.save("new", Array("2".utf8)) }
                try expect("MOVED_TO doc") { try account.source.save("doc", Array("22".utf8)) }
                try expect("MOVED_FROM old", "MOVED_TO moved") { try account.source.rename("old", "moved") }
                try expect("DELETE gone") { try account.source.remove("gone") }
                try expect("MOVED_TO,ISDIR folder") { try account.source.makeDirectory("folder") }
                watch.signal(SIGKILL)
                #expect(watch.hasEnded(within: 10))
                #expect(try account.shell("cat doc moved new; ls") == "2212doc\nfolder\nmoved\nnew\n")
                try account.expectSame()
            }
        }

        @Test func `an open file keeps its bytes while another device replaces it`() async throws {
            try await mounted { source in
                try source.save("doc", [UInt8](repeating: 65, count: 300_000))
            } _: { account in
                let reader = try account.start(
                    "exec 3<doc; head -c 1000 <&3 >/dev/null; mkfifo $tmp/go; read -r < $tmp/go; cat <&3"
                )
                try waitUntil("the reader has it open") {
                    try account.shell("[ -p $tmp/go ] && echo yes || :") == "yes\n"
                }
                try account.source.save("doc", [UInt8](repeating: 66, count: 200_000))
                try waitUntil("the new size") { try account.shell("stat -c %s doc") == "200000\n" }
                try account.shell("echo > $tmp/go")
                let old = try reader.wait(deadline: 30)
                #expect(old.output == String(repeating: "A", count: 299_000))
                #expect(try account.shell("cat doc") == String(repeating: "B", count: 200_000))
            }
        }

        /// Once the kernel has dropped a directory's name getcwd(2) fails there until somebody looks the name up.
        @Test(arguments: ["", "ro"]) func `who is in a directory stays in it when that is changed elsewhere`(
            options: String
        ) async throws {
            try await mounted(options: options) { source in
                try source.makeDirectory("folder")
                try source.save("folder/doc", Array("1".utf8))
            } _: { account in
                let program = try account.start(
                    """
                    ls; cd folder
                    exec python3 -c '
                    import os
                    print(os.getcwd(), flush=True)
                    while os.stat(".").st_mode & 0o777 != 0o751: pass
                    print(os.getcwd(), open("doc").read())
                    '
                    """
                )
                try waitUntil("it is there") {
                    program.output.hasSuffix("/folder\n") || program.hasEnded(within: 0)
                }
                try account.shell("chmod 751 $src/folder; $COVE sync")
                let result = try program.wait(deadline: 60)
                #expect(result.status == 0, "\(result.error)")
                let place = "\(account.mount)/folder"
                #expect(result.output == "folder\n\(place)\n\(place) 1\n", "\(result.output)")
            }
        }

        /// A directory that another one is moved over is dead to the kernel, which shows nothing in it any more.
        @Test(arguments: [
            "mv $src/theirs $src/folder", "cp -r $src/theirs $src/folder", "cp $src/theirs/new $src/folder",
        ])
        func `a directory that gives way to another device's is still there for those in it`(
            change: String
        ) async throws {
            try await mounted { source in
                for directory in ["ours", "theirs"] { try source.makeDirectory(directory) }
                try source.save("ours/doc", Array("1".utf8))
                try source.save("theirs/new", Array("2".utf8))
            } _: { account in
                try account.shell("cat */*; $COVE pause; mkdir ours/sub; mv ours folder; mkfifo $tmp/go")
                let watch = try account.start("exec inotifywait -m --format '%e %f' .")
                try waitUntil("inotifywait watches") { watch.error.contains("Watches established") }
                let program = try account.start(
                    "cd folder; echo there; read -r < $tmp/go; cat doc; env pwd -P; ls; echo late > sub/late"
                )
                try waitUntil("it is there") { program.output == "there\n" }
                // Only then: a pause ends no taking in.
                try account.shell("\(change); $COVE resume; $COVE sync --wait; echo > $tmp/go")
                let result = try program.wait(deadline: 60)
                let name = try account.shell("ls -d *conflict*").dropLast()
                #expect(result.output == "there\n1\(account.mount)/\(name)\ndoc\nsub\n", "\(result.error)")
                #expect(try account.shell("cat *conflict*/doc *conflict*/sub/late") == "1late\n")
                let isFile = change.hasPrefix("cp $")
                #expect(try account.shell("cat folder\(isFile ? "" : "/new")") == "2")
                try waitUntil("all is reported") {
                    watch.output.contains("MOVED_FROM,ISDIR folder\n")
                        && watch.output.contains("MOVED_TO,ISDIR \(name)\n")
                        && watch.output.contains("MOVED_TO\(isFile ? "" : ",ISDIR") folder\n")
                }
                watch.signal(SIGKILL)
                #expect(watch.hasEnded(within: 10))
                try account.shell("$COVE sync --wait")
                try account.expectSame()
            }
        }

        /// The kernel refuses to move something over a directory that is a mount point.
        @Test func `a directory that something is mounted on gives way`() async throws {
            try await mounted { _ in
            } _: { account in
                try account.shell("ls; $COVE pause; mkdir folder; echo 1 > folder/doc; mount -t tmpfs none folder")
                try account.source.save("folder", Array("2".utf8))
                try account.shell("$COVE resume; $COVE sync --wait")
                try account.shell("umount *conflict*")
                #expect(try account.shell("cat folder *conflict*/doc") == "21\n")
                try account.expectSame()
            }
        }
    }
}
