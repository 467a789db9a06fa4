import CoveTestSupport
import Dispatch
import Synchronization
import Testing

@testable import CoveKit

/// Questions that all accounts are asked.
struct AccountQuestionTests {
    /// Accounts that answer what a test says, or hang until it ends.
    private final class Accounts: Sendable {
        private let answers: [String: AccountAnswer<Int>]
        private let end = DispatchSemaphore(value: 0)

        init(_ answers: [String: AccountAnswer<Int>]) { self.answers = answers }

        func ask(_ name: String) -> AccountAnswer<Int> {
            if let answer = answers[name] { return answer }
            end.wait()
            end.signal()
            return .found(-1)
        }

        func first(of names: [String] = [], patience: Double = 60) async -> Result<Int, CoveError> {
            defer { end.signal() }
            do throws(CoveError) {
                return .success(
                    try await MountedAccounts.first(of: names, called: { "/\($0)" }, patience: patience) {
                        self.ask($0)
                    }
                )
            } catch {
                return .failure(error)
            }
        }

        func foremost(of names: [String] = [], patience: Double) async -> Int? {
            defer { end.signal() }
            return await MountedAccounts.foremost(of: names, patience: patience) { name in
                if case .found(let value) = self.ask(name) { value } else { nil }
            }
        }
    }

    private static let stranger = AccountAnswer<Int>.unknown(CoveError(.accessDenied, "is another one's"))
    private static let unable = AccountAnswer<Int>.unknown(CoveError(.unreachable, "the source is away"))
    private static let refusal = AccountAnswer<Int>.refused(CoveError(.accessDenied, "was revoked"))
    private static let dead = AccountAnswer<Int>.silent(CoveError(.noDaemon, "it has died"))

    @Test func `one that hangs holds up no answer of another`() async throws {
        let accounts = { Accounts(["knows": .found(7), "stranger": Self.stranger, "refuses": Self.refusal]) }
        #expect(try await accounts().first(of: ["hangs", "stranger", "knows"]).get() == 7)
        guard case .failure(let error) = await accounts().first(of: ["hangs", "refuses", "stranger"]) else {
            Issue.record("a refusal was no answer")
            return
        }
        #expect(error.code == .accessDenied && error.message == "was revoked")
    }

    @Test(arguments: [
        (["stranger", "hangs"], 0.05, CoveError.Code.timedOut, "no other account knows it, and the account at /hangs"),
        (["dead", "stranger"], 60, .noDaemon, "no other account knows it, and the account at /dead does not answer"),
        (["dead"], 60, .noDaemon, "the account at /dead does not answer (it has died); try again when it does"),
        // What an account says of its own bookmark counts for more than what others don't.
        (["unable", "stranger", "dead"], 60, .unreachable, "the source is away"),
        (["stranger", "unable"], 60, .unreachable, "the source is away"),
        (["stranger", "stranger"], 60, .accessDenied, "is another one's"),
        ([], 60, .noSuchFile, "no account of Cove's is mounted"),
    ])
    func `where none knows it the error says who did not answer`(
        _ names: [String],
        _ patience: Double,
        _ code: CoveError.Code,
        _ words: String
    ) async throws {
        let accounts = Accounts(["stranger": Self.stranger, "unable": Self.unable, "dead": Self.dead])
        let result = await accounts.first(of: names, patience: patience)
        guard case .failure(let error) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(error.code == code && error.message.hasPrefix(words), "\(error)")
    }

    @Test func `the foremost that has one is taken, and who hangs is passed over`() async {
        let accounts = { Accounts(["one": .found(1), "two": .found(2), "stranger": Self.stranger]) }
        #expect(await accounts().foremost(of: ["stranger", "two", "one"], patience: 60) == 2)
        #expect(await accounts().foremost(of: ["two", "hangs"], patience: 60) == 2)
        #expect(await accounts().foremost(of: ["hangs", "stranger", "one"], patience: 0.05) == 1)
        #expect(await accounts().foremost(of: ["stranger", "hangs"], patience: 0.05) == nil)
        #expect(await accounts().foremost(patience: 60) == nil)
    }
}
