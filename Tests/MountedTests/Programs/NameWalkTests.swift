import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A program that lists directories and looks at none of their files is given names, and nobody is shown anything else for it.
    struct NameWalkTests {
        private static let folders = 10
        private static let files = 50

        private static func fill(_ source: SourceFolder) throws {
            for folder in 0..<folders {
                try source.makeDirectory("d\(folder)/sub")
                for file in 0..<files { try source.save("d\(folder)/f\(file)", [UInt8](repeating: 65, count: file)) }
            }
        }

        /// How many requests the kernel has sent for a script's sake.
        private static func requests(_ account: MountedAccount, _ script: String) throws -> Int {
            let before = try account.statistics().fuseRequests
            try account.shell(script)
            return try account.statistics().fuseRequests - before
        }

        @Test func `who walks by names makes the kernel keep no files`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let count = 1 + Self.folders * (Self.files + 2)
                #expect(try account.shell("find . | wc -l") == "\(count)\n")
                // Of the last folder no file is known. Unlike stat(1), this asks for no birth time, which no listing brings.
                let asked = try Self.requests(account, "[ -s d9/f7 ]")
                #expect(asked > 0)
                #expect(try account.shell("stat -c %s d9/f7") == "7\n")
            }
        }

        @Test(arguments: ["true", "find . > $tmp/names", "find . > $tmp/names; find . > $tmp/names"])
        func `who looks at files asks for each folder, not for each file`(before: String) async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell(before)
                let requests = try Self.requests(account, "find . -printf '%P %s %y %m\\n' | sort > $tmp/seen")
                #expect(requests < Self.folders * Self.files / 2, "\(requests) requests")
                let seen = try account.shell("cat $tmp/seen")
                let script = "cd $src; find . -name '.cove*' -prune -o -printf '%P %s %y %m\\n' | sort"
                let expected = try account.shell(script)
                // A directory's size is each file system's own.
                let files = { (text: String) in text.split(separator: "\n").filter { $0.contains(" f ") } }
                let (shown, there) = (files(seen), files(expected))
                #expect(shown == there && shown.count == Self.folders * Self.files)
            }
        }

        @Test func `a name that is listed without its file can be used in each way`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell(
                    """
                    find . > $tmp/names
                    cd d9
                    [ "$(head -c 3 f10)" = AAA ]; echo more >> f11; mv f12 moved; ln f13 linked; rm f14; ln -sf f15 f16
                    chmod 600 f17; touch f18; cp f19 copied; [ "$(cat f11 | wc -c)" = 16 ]; [ ! -e f12 ]; [ -L f16 ]
                    [ "$(stat -c %a f17)" = 600 ]; [ "$(stat -c %h f13)" = 2 ]
                    find . | sort > $tmp/after; rm -r ../d8; find .. > /dev/null; [ ! -e ../d8 ]
                    """
                )
                let names = try account.shell("cat $tmp/after").split(separator: "\n")
                #expect(names.contains("./moved") && names.contains("./linked") && !names.contains("./f14"))
                try account.expectSame()
            }
        }
    }
}
