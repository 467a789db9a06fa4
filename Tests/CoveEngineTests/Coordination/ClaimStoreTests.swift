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
        first.keep(claim(1), letIn: [], token: "t", process: 1, began: 1)
        first.keep(claim(2), letIn: [], token: "t", process: 1, began: 1)
        let size = try System.lstat(path).st_size
        #expect(truncate(path, size - 5) == 0)
        let second = try ClaimStore(path: path, goesOn: true)
        #expect(second.claims.map(\.number) == [1])
        second.keep(claim(3), letIn: [], token: "t", process: 1, began: 1)
        second.drop(1)
        #expect(try kept() == [3])
    }

    @Test func `presenters are there again where their programs knew them to be, and who let a claim in`() throws {
        let first = try ClaimStore(path: path, goesOn: false)
        let step = PathStep(name: FileName(unchecked: Array("f".utf8)))
        var table = ClaimTable(after: 100)
        let session = table.beginSession(.answers)
        let kinds: Set<CoordinationInterface.MessageKind> = [.relinquishToWriter, .didChange]
        let numbers = (0..<3).compactMap { _ in
            table.addPresenter(session: session, at: [step], implements: kinds, observes: ["x"], now: 0)
        }
        for number in numbers {
            first.keep(try #require(table.presenters[number]), token: "t", process: 1, began: 2)
        }
        table.movePresenter(numbers[1], to: nil, now: 0)
        first.keep(try #require(table.presenters[numbers[1]]), token: "t", process: 1, began: 2)
        first.dropPresenter(numbers[2])
        first.keep(claim(7), letIn: [LetIn(presenter: numbers[0], claim: 5)], token: "t", process: 1, began: 2)
        let second = try ClaimStore(path: path, goesOn: true)
        #expect(second.presenters.map(\.number) == [numbers[0], numbers[1]])
        #expect(try second.presenters.map { try $0.path?.remotePath()?.bytes } == [Array("f".utf8), nil])
        #expect(Set(second.presenters[0].messages) == ["relinquishToWriter", "didChange"])
        #expect(second.presenters[0].observes == ["x"])
        #expect(second.claims.first?.letIn?.map(\.claim) == [5])
        // The file is empty once nobody is left.
        second.drop(7)
        for number in numbers { second.dropPresenter(number) }
        #expect(try System.lstat(path).st_size == 0)
    }

    @Test func `a claim has its own presenter again, and what it has made is new`() throws {
        let first = try ClaimStore(path: path, goesOn: false)
        let made = claim(5)
        made.request.presenter = 4
        made.intents[0].existed = false
        first.keep(made, letIn: [], token: "t", process: 1, began: 1)
        first.keep(claim(6), letIn: [], token: "t", process: 1, began: 1)
        let second = try ClaimStore(path: path, goesOn: true)
        #expect(second.claims.map(\.presenter) == [4, nil])
        #expect(second.claims.map(\.existed) == [[false], nil])
    }

    @Test func `the file of many claims stays as long as they are`() throws {
        let store = try ClaimStore(path: path, goesOn: false)
        let name = String(repeating: "n", count: 200)
        for number in 1...4000 { store.keep(claim(number, name), letIn: [], token: "t", process: 1, began: 1) }
        let size = try System.lstat(path).st_size
        #expect(size > 1 << 20)
        for number in 4001...12_000 {
            store.keep(claim(number, name), letIn: [], token: "t", process: 1, began: 1)
            store.drop(number)
        }
        #expect(try System.lstat(path).st_size < 3 * size)
        #expect(try kept() == Array(1...4000))
    }
}
