import CoveCore
import CoveTestSupport
import Glibc
import Testing

@testable import CoveClaims
@testable import CoveEngine

/// Claims in a file, for the daemon that takes over.
@Suite struct ClaimStoreTests {
    let root: TemporaryDirectory
    let path: String
    private let tree = PathNode(name: FileName(unchecked: []), parent: nil, isPackage: false)

    init() throws {
        root = try TemporaryDirectory("cove-claims")
        path = root.appending("claims")
    }

    private func claim(_ number: Int, _ name: String = "f") -> Claim {
        let step = PathStep(name: FileName(unchecked: Array(name.utf8)))
        let item = WantedItem(path: [step], use: .write(nil))
        let claim = Claim(number: number, request: ClaimRequest(session: 1, items: [item]), since: 0)
        claim.intents = [ClaimIntent(item.use, of: claim, at: tree.child(step))]
        return claim
    }

    private func kept() throws -> [Int] { try ClaimStore(path: path, goesOn: true).claims.map(\.number) }

    @Test func `a line that was cut off takes no other one with it`() throws {
        let first = try ClaimStore(path: path, goesOn: false)
        first.keep(claim(1), token: "t", process: 1, began: 1)
        first.keep(claim(2), token: "t", process: 1, began: 1)
        let size = try System.lstat(path).st_size
        #expect(truncate(path, size - 5) == 0)
        let second = try ClaimStore(path: path, goesOn: true)
        #expect(second.claims.map(\.number) == [1])
        second.keep(claim(3), token: "t", process: 1, began: 1)
        second.drop(1)
        #expect(try kept() == [3])
    }

    @Test func `the file of many claims stays as long as they are`() throws {
        let store = try ClaimStore(path: path, goesOn: false)
        let name = String(repeating: "n", count: 200)
        for number in 1...4000 { store.keep(claim(number, name), token: "t", process: 1, began: 1) }
        let size = try System.lstat(path).st_size
        #expect(size > 1 << 20)
        for number in 4001...12_000 {
            store.keep(claim(number, name), token: "t", process: 1, began: 1)
            store.drop(number)
        }
        #expect(try System.lstat(path).st_size < 3 * size)
        #expect(try kept() == Array(1...4000))
    }
}
