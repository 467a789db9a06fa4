import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Everything of Cove is killed in the middle of work.
    struct CrashTests {
        /// With the mount's options: in the normal way, and where the kernel reads and writes by itself.
        private static let ways = ["", "passthrough"]

        @Test(arguments: ways)
        func `what was acknowledged survives a kill in the middle of an untar`(way: String) async throws {
            try await mounted(options: way) { account in
                try account.shell(
                    """
                    mkdir $tmp/tree; cd $tmp/tree; mkdir d{00..99}
                    for d in *; do for f in {00..99}; do echo $d $f > $d/$f; done; done
                    tar -cf ../tree.tar *
                    """
                )
                let untar = try account.start("exec tar -xvf $tmp/tree.tar > $tmp/names 2>&1")
                let names = account.scratch.appending("names")
                try waitUntil("a third is there", deadline: 300) {
                    (try? System.lstat(names).st_size) ?? 0 > 7 * 3300
                }
                try account.crash()
                #expect(try untar.wait(deadline: 60).status != 0)
                try account.start()
                // tar names a file before it makes it: all but the last before its first error were closed.
                let count = try account.shell(
                    """
                    sed '/^tar: /,$d; /\\/$/d' $tmp/names | head -n -1 > $tmp/acknowledged
                    sums() { tr '\\n' '\\0' < $tmp/acknowledged | xargs -0 sha256sum; }
                    cmp <(sums) <(cd $tmp/tree; sums)
                    wc -l < $tmp/acknowledged
                    """
                )
                let acknowledged = try #require(Int(count.dropLast()))
                #expect(acknowledged > 3000 && acknowledged < 10_000)
                try account.expectSame()
                let there = try account.shell("find . -type f | wc -l")
                #expect(try #require(Int(there.dropLast())) - acknowledged <= 1)
                try account.expectWay(way)
            }
        }

        @Test(arguments: ways)
        func `what was closed or synced survives, and what was deleted or renamed stays so`(way: String) async throws {
            try await mounted(options: way) { source in
                for name in ["gone", "old", "edited", "cut"] { try source.save(name, Array("first \(name)\n".utf8)) }
            } _: { account in
                try account.shell(
                    """
                    $COVE pause --state $STATE
                    rm gone; mv old new; echo second >> edited; truncate -s 3 cut; mkdir -p a/b; echo c > a/b/c
                    ln -s edited link; chmod 600 new; setfattr -n user.tags -v x new
                    """
                )
                let writer = try account.start(
                    """
                    exec python3 -c '
                    import mmap, os, signal
                    f = os.open("synced", os.O_CREAT | os.O_RDWR); os.write(f, b"s" * 100_000); os.fsync(f)
                    g = os.open("mapped", os.O_CREAT | os.O_RDWR); os.ftruncate(g, 100_000)
                    m = mmap.mmap(g, 0); m[:] = b"m" * 100_000; m.flush()
                    print("done", flush=True)
                    signal.pause()'
                    """
                )
                try waitUntil("the writer is done") { writer.output == "done\n" || writer.hasEnded(within: 0) }
                try account.crash()
                writer.signal(SIGKILL)
                #expect(writer.hasEnded(within: 10))
                try account.start()
                #expect(
                    try account.shell(
                        """
                        $COVE resume --state $STATE
                        ls; cat new edited cut; echo; cat a/b/c; readlink link
                        stat -c %a new; getfattr --only-values -n user.tags new
                        tr -d s < synced | wc -c; tr -d m < mapped | wc -c; stat -c %s synced mapped
                        """
                    ) == """
                        a
                        cut
                        edited
                        link
                        mapped
                        new
                        synced
                        first old
                        first edited
                        second
                        fir
                        c
                        edited
                        600
                        x0
                        0
                        100000
                        100000

                        """
                )
                try account.expectSame()
                try account.expectWay(way)
            }
        }

        @Test(arguments: ways)
        func `a crash in the middle of a fetch leaves no wrong bytes`(way: String) async throws {
            let options = ["simulate-bandwidth=4M", way].filter { !$0.isEmpty }.joined(separator: ",")
            try await mounted(options: options) { source in
                var random = SeededGenerator(seed: 9)
                try source.save("doc", random.bytes(20_000_000))
            } _: { account in
                let reader = try account.start("exec cat doc")
                try waitUntil("some bytes are here") { try account.statistics().bytesDownloaded > 2_000_000 }
                try account.crash()
                #expect(try reader.wait(deadline: 30).status != 0)
                try account.start()
                try account.shell("cmp doc $src/doc")
                try account.expectWay(way)
            }
        }
    }
}
