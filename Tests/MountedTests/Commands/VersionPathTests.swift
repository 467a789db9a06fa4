import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Versions as files of a hidden folder.
    struct VersionPathTests {
        /// A document with the two versions `one` and `two` that are read by the paths given to the body.
        private func document(
            options: String = "",
            _ body: @escaping @Sendable (_ account: MountedAccount, _ one: String, _ two: String) throws -> Void
        ) async throws {
            try await mounted(options: options) { source in
                try source.save("doc", Array("one\n".utf8))
            } _: { account in
                try account.shell("cat doc; echo two > doc")
                try account.settle()
                try account.shell("echo three > doc")
                try account.settle()
                let versions = try account.cove("versions ls doc", as: [VersionStatus].self)
                #expect(versions.map(\.size) == [4, 4])
                let folder = ".cove/versions/\(try account.info("doc").documentID)"
                try body(account, "\(folder)/\(versions[1].id)", "\(folder)/\(versions[0].id)")
            }
        }

        @Test(arguments: ["", "passthrough"])
        func `a version is a file that can be read and found, and is in no listing`(options: String) async throws {
            try await document(options: options) { account, one, two in
                #expect(
                    try account.shell("cat \(one) \(two) doc; diff \(one) \(two) || true").hasPrefix(
                        "one\ntwo\nthree\n"
                    )
                )
                #expect(
                    try account.shell("stat -c '%A %s %h' \(one); stat -c %A .cove") == "-r--r--r-- 4 1\ndr-xr-xr-x\n"
                )
                #expect(try account.shell("[ $(stat -c %.9W \(one)) = $(stat -c %.9Y \(one)) ]; stat .cove") != "")
                #expect(try account.shell("ls -A; find . | wc -l") == "doc\n2\n")
                let names = [one, two].map { $0.split(separator: "/")[3] }.joined(separator: "\n")
                #expect(
                    try account.shell(
                        "ls .cove; ls .cove/versions | wc -l; ls -l .cove/versions > $tmp/l; ls $(dirname \(one))"
                    )
                        == "versions\n1\n\(names)\n"
                )
                try account.shell("cp \(one) $tmp/copy; cmp \(one) $tmp/copy; mkdir d; cp -p \(two) d/two; cat d/two")
                // What has no such name is not there, here and elsewhere.
                for path in [".cove/other", ".cove/versions/x", "\(one)0", "\(one)/x", "d/.cove"] {
                    #expect(try account.start("stat \(path)").wait(deadline: 20).status != 0, "\(path)")
                }
                try account.expectSame()
            }
        }

        @Test func `nothing of it can be changed, by root neither`() async throws {
            try await document { account, one, _ in
                let changes = [
                    "echo x > \(one)", "echo x >> \(one)", "truncate -s 1 \(one)", "rm -f \(one)", "mv \(one) other",
                    "mv doc \(one)", "touch \(one)", "chmod 777 \(one)", "setfattr -n user.x -v y \(one)",
                    "ln \(one) other",
                    "ln doc .cove/versions/doc", "ln -s doc .cove/versions/doc", "mkdir .cove/d",
                    "mkdir .cove/versions/d",
                    "echo x > .cove/x", "mknod .cove/p p", "rmdir .cove/versions", "mv .cove other",
                    "fallocate -l 9 \(one)",
                    "cp doc \(one)",
                ]
                for change in changes {
                    let result = try account.start(change).wait(deadline: 20)
                    #expect(result.status != 0, "\(change)")
                    #expect(!result.error.contains("Stale"), "\(change): \(result.error)")
                }
                #expect(try account.shell("cat \(one) doc; ls -A") == "one\nthree\ndoc\n")
                try account.expectSame()
            }
        }

        @Test func `who has a version open reads it while its file is changed and daemons come and go`() async throws {
            try await document { account, one, two in
                try account.shell("mkfifo $tmp/go")
                let reader = try account.start("exec 3<\(one); echo open; read -r < $tmp/go; cat <&3")
                try waitUntil("it is open") { reader.output == "open\n" }
                try account.shell("echo four >> doc; echo five > new; mv new doc")
                try account.killDaemon()
                try account.shell("echo > $tmp/go")
                #expect(try reader.wait(deadline: 20).output == "open\none\n")
                #expect(try account.shell("cat \(two)") == "two\n")
                try account.shell("$COVE versions rm doc --all")
                #expect(try account.start("cat \(two)").wait(deadline: 20).error.contains("No such file"))
                try account.expectSame()
            }
        }
    }
}
