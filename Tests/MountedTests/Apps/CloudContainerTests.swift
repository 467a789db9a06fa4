import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Apps, containers and references on real servers, on two devices.
    struct CloudContainerTests {
        @Test(arguments: SharedSource.all + [.program])
        func `containers, their names and references are the same on two devices`(source: SharedSource) async throws {
            try await source.devices { here, there, _ in
                try here.addApp("a", document: "report.txt", "original\n")
                try here.addApp("b", document: "own.txt", "own\n")
                try here.settle()
                // The other device has them by name before it has listed anything.
                #expect(try there.shell("cat a/Documents/report.txt") == "original\n")
                #expect(try there.shell("ls") == "a\nb\n")
                try here.pick("a/Documents/report.txt", for: "b")
                try here.shell("mv a Letters; echo more >> b/Documents/report.txt")
                try here.settle()
                try waitUntil("the other device has names and reference", deadline: 60) {
                    try there.settle()
                    return try there.shell("ls; cat b/Documents/report.txt 2>/dev/null || true")
                        == "Letters\nb\noriginal\nmore\n"
                }
                // What was not sent before the name changed goes where it belongs.
                try there.shell(
                    """
                    $COVE pause; echo late > Letters/Documents/late.txt; mv Letters Post; echo later > Post/Documents/later.txt
                    $COVE resume; $COVE sync --wait
                    """
                )
                try waitUntil("it comes here", deadline: 60) {
                    try here.settle()
                    return try here.shell("ls; cat Post/Documents/late* 2>/dev/null || true")
                        == "Post\nb\nlate\nlater\n"
                }
                try there.settle()
                #expect(
                    try here.shell("cd Post; find . -type f | sort") == there.shell("cd Post; find . -type f | sort")
                )
                try here.shell("rm b/Documents/report.txt")
                try here.settle()
                try waitUntil("it is taken back there", deadline: 60) {
                    try there.settle()
                    return try there.cove("grants ls") == ""
                }
                #expect(try there.shell("cat Post/Documents/report.txt; ls b/Documents") == "original\nmore\nown.txt\n")
                for device in [here, there] { #expect(try device.cove("conflicts") == "") }
            }
        }
    }
}
