import CoveTestSupport
import Glibc
import Testing

@testable import CoveCore

/// From a path to a daemon, and who that is.
struct AccountTests {
    @Test func `a mount tells who made it`() {
        let lines = """
            40 22 0:51 / /mnt/a\\040b rw,nosuid - fuse.cove cove:a\\040b rw,user_id=1000,group_id=100,allow_other
            41 22 0:52 / /mnt/root rw - fuse.cove cove:x rw,user_id=0,group_id=0
            42 22 8:1 / /home rw shared:7 - ext4 /dev/sda1 rw,errors=remount-ro
            43 22 0:53 / /mnt/odd rw - fuse.cove cove:user_id=7 rw,user_id=4294967296
            44 22 0:54 / /mnt/none rw - fuse.cove cove:x

            """
        let mounts = MountTable.parse(Array(lines.utf8))
        #expect(mounts.map(\.owner) == [1000, 0, nil, nil, nil])
        #expect(mounts[0].path == "/mnt/a b" && mounts[0].source == "cove:a b")
        #expect(mounts[3].owners.isEmpty)
    }

    @Test func `a user of the machine has the number that the namespace gives`() {
        let whole = UserMap(parsing: "         0          0 4294967295\n")
        #expect(whole.inside(0) == 0 && whole.inside(1000) == 1000 && whole.inside(4_294_967_294) == 4_294_967_294)
        let sandbox = UserMap(parsing: "0 1000 1\n")
        #expect(sandbox.inside(1000) == 0 && sandbox.inside(0) == nil && sandbox.inside(1001) == nil)
        let container = UserMap(parsing: "0 1000 1\n1 100000 65536\n")
        #expect(container.inside(1000) == 0 && container.inside(100_033) == 34 && container.inside(165_536) == nil)
        let nonsense = UserMap(parsing: "18446744073709551615 5 18446744073709551615\n1 2\n-1 0 3\n")
        #expect(nonsense.inside(5) == nil && nonsense.inside(0) == nil)
        #expect(UserMap.own().inside(geteuid()) != nil)
    }

    @Test func `a service of a user who is not named is a stranger`() async throws {
        try await blocking {
            let service = try TestService()
            let other = geteuid() &+ 1
            #expect(throws: VarlinkClient.Failure.stranger(geteuid())) {
                _ = try VarlinkClient(DaemonAddress(socket: service.path, owners: [other]))
            }
            #expect(throws: VarlinkClient.Failure.stranger(geteuid())) {
                _ = try VarlinkClient(DaemonAddress(socket: service.path, owners: []))
            }
            _ = try VarlinkClient(DaemonAddress(socket: service.path, owners: [other, geteuid()]))
        }
    }
}
