import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Apps, containers and references on real servers, on two devices.
    struct CloudContainerTests {
        @Test(arguments: SharedSource.all + [.program])
        func `containers, their names and references are the same on two devices`(source: SharedSource) async throws {
            try await source.devices(isMounted: false) { here, there, _ in
                try here.start()
                try here.addApp("a", document: "report.txt", "original\n")
                try here.addApp("b", document: "own.txt", "own\n")
                try here.settle()
                try there.start()
                // The other device has them by name before it has listed anything.
                #expect(try there.shell("cat a/Documents/report.txt") == "original\n")
                let names = try there.shell("ls")
                #expect(names == "a\nb\n")
                try here.pick("a/Documents/report.txt", for: "b")
                try here.shell("mv a Letters; echo more >> b/Documents/report.txt")
                try here.settle()
                // What apps are given is not written to somebody's own program: there each device has its own references.
                let isTold = source.testDescription != SharedSource.program.testDescription
                let document = isTold ? "b/Documents/report.txt" : "Letters/Documents/report.txt"
                try there.waitFor("Letters\nb\noriginal\nmore\n", "ls; cat \(document) || true")
                #expect(try there.shell("ls b/Documents") == (isTold ? "own.txt\nreport.txt\n" : "own.txt\n"))
                // What was not sent before the name changed goes where it belongs.
                try there.shell(
                    """
                    $COVE pause; echo late > Letters/Documents/late.txt; mv Letters Post; echo later > Post/Documents/later.txt
                    $COVE resume; $COVE sync --wait
                    """
                )
                try here.waitFor("Post\nb\nlate\nlater\n", "ls; cat Post/Documents/late* || true")
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

extension MountedAccount {
    /// Settles until a script prints what is expected; says what it printed last where it never does.
    fileprivate func waitFor(_ expected: String, _ script: String) throws {
        var last = ""
        do {
            try waitUntil("the device has it", deadline: 60) {
                try settle()
                last = try shell("{ \(script); } 2>&1")
                return last == expected
            }
        } catch {
            throw CommandFailure("\(error)\nof\n\(script)\nin place of\n\(expected)last:\n\(last)")
        }
    }
}
