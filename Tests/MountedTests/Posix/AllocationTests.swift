import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// fallocate(2) in all its modes, at files whose bytes are here, in part or not, beside a file on the native disk.
    struct AllocationTests {
        private static let size = 100_000

        /// Takes the folder with the files, prints what each call answers and the size after it.
        private static let calls = """
            import ctypes, os, sys
            libc = ctypes.CDLL(None, use_errno=True)
            libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
            keep, punch, zero = 1, 2, 16
            size = int(sys.argv[2])
            places = [(0, 4096), (size // 2, 5000), (size - 10, 4096), (size, 4096), (1 << 20, 4096)]
            modes = [0, keep, punch | keep, zero, zero | keep, punch, punch | zero | keep]
            os.chdir(sys.argv[1])
            for state in ("away", "part", "here"):
                for mode in modes:
                    for number, (offset, length) in enumerate(places):
                        name = f"{state}-{mode}-{number}"
                        if state == "here": open(name, "rb").read()
                        file = os.open(name, os.O_RDWR)
                        if state == "part": os.pwrite(file, b"own", size // 3)
                        done = libc.fallocate(file, mode, offset, length)
                        print(name, done, os.strerror(ctypes.get_errno()) if done else "", os.fstat(file).st_size)
                        os.close(file)
            """

        @Test func `what fallocate answers and leaves is as on the native disk, whatever is here`() async throws {
            try await mounted(options: "settle=50ms") { source in
                let bytes = (0..<Self.size).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8) }
                for state in ["away", "part", "here"] {
                    for mode in [0, 1, 3, 16, 17, 2, 19] {
                        for number in 0..<5 { try source.save("\(state)-\(mode)-\(number)", bytes) }
                    }
                }
            } _: { account in
                try account.shell(
                    "cp -r $src $tmp/native; $COVE pause; cat > $tmp/calls.py << 'END'\n\(Self.calls)\nEND"
                )
                let here = try account.start("exec python3 $tmp/calls.py $mnt \(Self.size)")
                let native = try account.shell("python3 $tmp/calls.py $tmp/native \(Self.size)")
                let result = try here.wait(deadline: 60)
                #expect(result.status == 0 && result.output == native, "\(result.error)")
                try account.shell("$COVE resume")
                try account.settle()
                #expect(
                    try account.shell("diff -r $tmp/native $mnt && diff -r -x '.*' $tmp/native $src && echo same")
                        == "same\n"
                )
            }
        }

        @Test func `room that is reserved in a file that is not here changes nothing`() async throws {
            try await mounted(options: "settle=50ms") { source in
                try source.save("f", [UInt8](repeating: 0x61, count: Self.size))
            } _: { account in
                // What is sent anew is another file at the source.
                let before = try account.shell("stat -c %i $src/f")
                try account.shell(
                    "fallocate -n -l 4096 f; fallocate -l 4096 f; fallocate -n -o 1M -l 4096 f; fallocate -p -o 1M -l 9 f"
                )
                try account.settle()
                #expect(try account.shell("stat -c %s f; stat -c %i $src/f") == "\(Self.size)\n\(before)")
                #expect(try account.statistics().dirtyItems == 0)
            }
        }
    }
}
