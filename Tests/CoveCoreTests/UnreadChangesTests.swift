import Testing

@testable import CoveCore

/// What a session that reads nothing is told of.
@Suite struct UnreadChangesTests {
    private typealias Message = CoordinationInterface.Message

    private func message(
        _ kind: CoordinationInterface.MessageKind,
        of presenter: String = "one",
        path: String = "f"
    ) -> CoordinationInterface.Message {
        Message(
            number: 1,
            presenter: presenter,
            kind: kind,
            path: PathParameter(RemotePath(unchecked: Array(path.utf8)))
        )
    }

    @Test func `a change that waits to be read is not told again, and is after it was read`() {
        let unread = UnreadChanges()
        #expect(unread.add(message(.didChange)))
        #expect(!unread.add(message(.didChange)))
        #expect(unread.add(message(.didChange, of: "two")) && unread.add(message(.didChange, path: "g")))
        #expect(unread.add(message(.subitemDidChange)) && !unread.add(message(.subitemDidChange)))
        unread.remove(message(.didChange))
        #expect(unread.add(message(.didChange)) && !unread.add(message(.didChange)))
    }

    @Test(arguments: CoordinationInterface.MessageKind.allCases)
    func `all else is told each time`(kind: CoordinationInterface.MessageKind) {
        let unread = UnreadChanges()
        let isOnce = kind == .didChange || kind == .subitemDidChange
        #expect(unread.add(message(kind)) && unread.add(message(kind)) == !isOnce)
    }
}
