import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What one device does is seen by another one long before it would look for it.
    struct NewsTests {
        /// Nothing is found by looking around within the time of these tests.
        private static let options = "poll=1h,settle=50ms,log=debug"

        @Test(arguments: SharedSource.servers)
        func `a change is seen by the other device though it does not look around`(source: SharedSource) async throws {
            try await source.devices(options: Self.options) { here, there, _ in
                try here.shell("mkdir -p a/b; echo 1 > a/b/f; echo 1 > top; $COVE sync --wait")
                try waitUntil("the folders are there", deadline: 30) {
                    (try? there.shell("cat a/b/f top; ls a a/b")) == "1\n1\na:\nb\n\na/b:\nf\n"
                }
                let steps = [
                    ("echo 22 > a/b/f", "cat a/b/f", "22\n"), ("echo 22 > top", "cat top", "22\n"),
                    ("echo x > a/b/new", "ls a/b", "f\nnew\n"), ("mkdir a/c", "ls a", "b\nc\n"),
                    ("mv a/b/new a/c/moved", "ls a/b a/c", "a/b:\nf\n\na/c:\nmoved\n"), ("rm top", "ls", "a\n"),
                    ("mv a e", "ls; ls e", "e\nb\nc\n"), ("rm -r e/c", "ls e", "b\n"),
                ]
                for (done, look, seen) in steps {
                    let start = ContinuousClock.now
                    try here.shell(done)
                    try waitUntil("\(done) is seen", deadline: 60) { (try? there.shell(look)) == seen }
                    print("news: \(source.testDescription): \(done): \(ContinuousClock.now - start)")
                }
                // And the other way round.
                try there.shell("echo back > e/b/f")
                try waitUntil("it is seen here", deadline: 60) { (try? here.shell("cat e/b/f")) == "back\n" }
            }
        }
    }
}
