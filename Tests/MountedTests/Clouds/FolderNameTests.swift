import CoveTestSupport
import Foundation
import Glibc
import Synchronization
import Testing

extension Mounted {
    /// What another device's readers see while a folder is renamed.
    struct FolderNameTests {
        /// Looks into a folder again and again, and keeps what is seen of it, each time that is something else.
        final class Sampler: Sendable {
            private let folder: String
            private let seen = Mutex<(lists: [[String]], count: Int)>(([], 0))
            private let isOver = Atomic(false)
            private let ended = DispatchSemaphore(value: 0)

            init(_ folder: String) {
                self.folder = folder
                Thread { [self] in
                    while !isOver.load(ordering: .acquiring) { look() }
                    ended.signal()
                }
                .start()
            }

            private func look() {
                guard let directory = opendir(folder) else { return note(["?"]) }
                defer { closedir(directory) }
                var names: [String] = []
                while let entry = readdir(directory) {
                    let name = withUnsafePointer(to: &entry.pointee.d_name.0) { String(cString: $0) }
                    if name != ".", name != ".." { names.append(name) }
                }
                note(names.sorted())
            }

            private func note(_ names: [String]) {
                seen.withLock { seen in
                    seen.count += 1
                    if seen.lists.last != names { seen.lists.append(names) }
                }
            }

            var lists: [[String]] { seen.withLock { $0.lists } }
            var count: Int { seen.withLock { $0.count } }

            func end() {
                isOver.store(true, ordering: .releasing)
                ended.wait()
            }
        }

        @Test(arguments: SharedSource.all, [true, false])
        func `a folder that is renamed elsewhere never has both names here, nor none`(
            source: SharedSource,
            isListed: Bool
        ) async throws {
            try await source.devices { here, there, files in
                try there.shell(
                    """
                    mkdir -p top/big/below/deep top/other; cd top/big
                    for i in $(seq 100); do echo $i > f$i; echo b$i > below/g$i; echo d$i > below/deep/h$i; done
                    """
                )
                try there.settle()
                try here.settle()
                let listing = isListed ? "ls -R top" : "ls top"
                try here.shell("\(listing) > $tmp/listing; $COVE pause --state $STATE")
                var reader: Command?
                var ids = ""
                let inspect = "stat -c '%i %F' . below below/deep f7 below/g8"
                if isListed {
                    ids = try here.shell("cat top/big/f7 > $tmp/bytes; cd top/big; \(inspect)")
                    try here.shell("echo mine > top/big/below/mine; echo more >> top/big/below/g8")
                    reader = try here.start(
                        "exec 3< top/big/f7; echo open; mkfifo $tmp/go; read -r < $tmp/go; cat <&3; stat -Lc %i /dev/fd/3"
                    )
                    try waitUntil("the reader has it open") { reader?.output == "open\n" }
                    ids = try here.shell("cd top/big; \(inspect)")
                }
                let sampler = Sampler("\(here.mount)/top")
                try waitUntil("it is looked at") { sampler.count > 10 }
                try there.shell("mv top/big top/big2")
                try there.settle()
                try waitUntil("it has its new name: \(sampler.lists)") { sampler.lists.last == ["big2", "other"] }
                let count = sampler.count
                try waitUntil("it is looked at once more") { sampler.count > count + 1000 }
                sampler.end()
                let seen = sampler.lists
                // What nobody has looked into may be any folder: that one goes before another comes.
                let allowed = [["big", "other"], ["big2", "other"]]
                #expect(seen.filter { isListed || $0 != ["other"] } == allowed, "\(seen)")
                if let reader {
                    // A bucket may show for a moment that a file is gone that is about to be under the new name.
                    let isBucket = files.hasPrefix("http")
                    let found = isBucket ? ids : try here.shell("cd top/big2; \(inspect)")
                    #expect(found == ids, "\(found) instead of \(ids)")
                    try here.shell("echo > $tmp/go")
                    let file = ids.split(separator: "\n")[3].split(separator: " ")[0]
                    #expect(try reader.wait(deadline: 30).output == "open\n7\n\(file)\n")
                    #expect(try here.shell("cat top/big2/below/mine top/big2/below/g8") == "mine\nb8\nmore\n")
                }
                try here.shell("$COVE resume --state $STATE")
                try here.settle()
                try there.settle()
                try waitUntil("both are the same") {
                    try here.shell("ls -R top; cat top/big2/*/g8") == there.shell("ls -R top; cat top/big2/*/g8")
                }
                if isListed { #expect(try there.shell("cat top/big2/below/mine") == "mine\n") }
                #expect(try here.shell("find . -type f | wc -l") == (isListed ? "301\n" : "300\n"))
            }
        }
    }
}
