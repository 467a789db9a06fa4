import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Dates of files: programs, the catalog and the cloud know the same one.
    struct DateTests {
        /// Python that writes files in every way, and lets the clock go on between a write and the close after it.
        private static let writers = """
            import mmap, os, time
            def later():
                start = time.clock_gettime(5)
                while time.clock_gettime(5) < start + 0.03: pass
            def opened(name, flags=os.O_CREAT | os.O_RDWR): return os.open(name, flags, 0o644)
            def plain(name):
                file = opened(name); os.write(file, b"x"); later(); os.close(file)
            def twice(name):
                file = opened(name); os.write(file, b"x"); later(); os.write(file, b"y"); later(); os.close(file)
            def again(name):
                plain(name); file = opened(name, os.O_WRONLY | os.O_TRUNC); os.write(file, b"z"); later(); os.close(file)
            def large(name):
                file = opened(name); os.write(file, bytes(3 << 20)); later(); os.close(file)
            def direct(name):
                file = opened(name, os.O_CREAT | os.O_RDWR | os.O_DIRECT)
                os.write(file, mmap.mmap(-1, 4096)); later(); os.close(file)
            def mapped(name):
                file = opened(name); os.truncate(file, 4096); later(); memory = mmap.mmap(file, 4096); os.close(file)
                memory[0] = 1; later(); memory.close()
            def reserved(name):
                file = opened(name); os.posix_fallocate(file, 0, 5000); later(); os.close(file)
            def copied(name):
                source = opened(name + ".source"); os.write(source, bytes(9000)); later()
                file = opened(name); os.copy_file_range(source, file, 9000, 0); later(); os.close(file); os.close(source)
            def moved(name):
                plain(name + ".old"); os.rename(name + ".old", name)
            def linked(name):
                plain(name); os.link(name, name + ".link"); later()
            ways = (plain, twice, again, large, direct, mapped, reserved, copied, moved, linked)
            for n in range(12):
                for way in ways: way(way.__name__ + str(n))
            """

        @Test func `the cloud gets the dates that programs see, however a file was written`() async throws {
            try await mounted { account in
                try account.shell("python3 - <<'END'\n\(Self.writers)\nEND")
                try account.settle()
                let dates = "stat -c '%n %.9Y' * | sort"
                let here = try account.shell(dates)
                #expect(here.split(separator: "\n").count == 12 * 12)
                #expect(try account.shell("cd $src; \(dates)") == here)
            }
        }

        @Test func `a change of permissions in the cloud takes no date from what was written here`() async throws {
            // Nothing of what is changed here is sent while the test goes on.
            try await mounted(options: "settle=1h") { source in
                for name in ["touched", "saved", "renewed", "open", "read"] { try source.save(name, Array("old".utf8)) }
            } _: { account in
                let dates = "stat -c '%n %.9Y %s' touched saved renewed open"
                try account.shell("cat *; touch -d 2001-02-03 touched; echo new > saved")
                try account.shell("rm renewed; echo new > renewed")
                let read = try account.shell("stat -c %.9Y read")
                let writer = try account.start(
                    "exec 3>> open; echo new >&3; touch $tmp/written; until [ -e $tmp/end ]; do sleep 0.01; done"
                )
                try waitUntil("it is written") { try account.shell("ls $tmp").contains("written") }
                let before = try account.shell(dates)
                try account.shell("chmod 640 $src/{touched,saved,renewed,open,read}; echo > $src/mark")
                try account.cove("sync")
                try waitUntil("the change is seen") { try account.shell("ls").contains("mark") }
                try waitUntil("it has come") { try account.shell("stat -c %a read") == "640\n" }
                #expect(try account.shell(dates) == before)
                #expect(try account.shell("stat -c %.9Y read") == read)
                try account.shell("touch $tmp/end")
                #expect(try writer.wait(deadline: 60).status == 0)
                #expect(try account.shell(dates) == before)
                try account.settle()
                #expect(try account.shell("\(dates); cd $src; \(dates)") == before + before)
            }
        }

        @Test func `a date of birth is what it is on a disk`() async throws {
            try await PosixTests().compare(
                """
                def birth(name): return float(subprocess.check_output(["stat", "-c", "%.9W", name]))
                # Files are dated by the last tick, or later where somebody looked at them since.
                def now(): return time.clock_gettime(5)
                def later():
                    start = now()
                    while now() < start + 0.02: pass
                born = {}
                for name, make in (("file", write), ("folder", os.mkdir), ("link", lambda name: os.symlink("file", name)),
                                   ("fifo", os.mkfifo)):
                    before = now(); make(name); born[name] = birth(name)
                    print(name, before - 0.01 <= born[name] <= time.time(), born[name] <= os.lstat(name).st_ctime)
                later(); write("file", "more"); os.chmod("file", 0o600); os.utime("file", (1, 1)); write("folder/x")
                os.link("file", "second"); os.rename("file", "folder/moved"); os.rename("link", "folder/link")
                later(); os.rename("folder", "renamed")
                for name, former in (("second", "file"), ("renamed/moved", "file"), ("renamed/link", "link"),
                                     ("renamed", "folder")):
                    print(name, birth(name) == born[former])
                before = now(); write("file"); print("again", birth("file") >= before - 0.01 > born["file"])
                file = os.open(".", os.O_TMPFILE | os.O_RDWR)
                linked = subprocess.check_output(["stat", "-L", "-c", "%.9W", "/proc/self/fd/%d" % file], pass_fds=[file])
                print("unnamed", before - 0.01 <= float(linked) <= time.time()); os.close(file)
                """
            )
        }

        @Test func `a document is made once, here or by another device, and queries know when`() async throws {
            try await mounted { source in
                try source.save("theirs", Array("text".utf8))
                try source.makeDirectory("folder")
            } _: { account in
                let births = "stat -c '%n %.9W' theirs folder ours"
                func queried(_ name: String) throws -> Double {
                    let predicate = "'FSName == \"\(name)\"'"
                    let json = try account.shell("$COVE query --json --attributes FSCreationDate \(predicate)")
                    let item = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
                    let values = try #require(item["values"] as? [String: Any])
                    return try #require(values["FSCreationDate"] as? Double)
                }
                #expect(
                    try account.shell("stat -c '%n %.9W' theirs folder")
                        == account.shell("cd $src; stat -c '%n %.9W' theirs folder")
                )
                try account.shell("echo text > ours")
                let made = try account.shell(births)
                for line in made.split(separator: "\n") {
                    let parts = line.split(separator: " ")
                    #expect(abs(try queried(String(parts[0])) - Double(parts[1])!) < 1e-6)
                }
                let first = try #require(Double(made.split(separator: " ").last?.dropLast() ?? ""))
                let later = "'FSName IN {\"ours\", \"theirs\"} AND FSCreationDate >= \(first - 0.001)'"
                #expect(try account.shell("$COVE query --count \(later)") == "1\n")
                // Another device makes the file anew, and this one lets its bytes go.
                try account.settle()
                try account.source.save("theirs", Array("newer".utf8))
                try waitUntil("it has come") { try account.shell("cat theirs") == "newer" }
                try account.cove("evict ours")
                #expect(try account.shell("cat ours; \(births)") == "text\n" + made)
                try account.end()
                try account.start()
                #expect(try account.shell(births) == made)
            }
        }
    }
}
