import CoveCore
import Testing

@testable import CoveEngine

/// How long changes that could not be taken in wait before they are taken up again.
struct FailedLookTests {
    private let start = System.monotonic()
    private let folder = RemotePath(unchecked: Array("folder".utf8))

    @Test func `a folder that goes on failing is looked at later and later`() {
        var looks = FailedLooks()
        var now = start
        var pauses: [TimeSpan] = []
        for _ in 0..<11 {
            pauses.append(looks.pause(folder, at: now))
            now = now + (pauses.last ?? .zero) + .milliseconds(300)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map { TimeSpan.seconds($0) })
        #expect(looks.pause(.root, at: now) == .seconds(1))
    }

    @Test func `changes of a folder that fail together wait as one`() {
        var looks = FailedLooks()
        for number in 0..<100 {
            let pause = looks.pause(folder, at: start + .milliseconds(number))
            #expect(pause == .milliseconds(1000 - number))
        }
        #expect(looks.pause(folder, at: start + .seconds(1)) == .seconds(2))
    }

    @Test func `a folder that could be looked at meanwhile begins anew`() {
        var looks = FailedLooks()
        var now = start
        for _ in 0..<9 { now = now + looks.pause(folder, at: now) }
        #expect(looks.pause(folder, at: now + .seconds(3600)) == .seconds(1))
    }
}
