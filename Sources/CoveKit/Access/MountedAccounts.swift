internal import CoveCore
internal import Foundation
internal import Glibc

/// What one account says to a question that all are asked.
enum AccountAnswer<Value: Sendable>: Sendable {
    /// It knows.
    case found(Value)
    /// It knows that there is nothing to be had, and nobody else does.
    case refused(CoveError)
    /// It does not know; another one may.
    case unknown(CoveError)
    /// It could not be asked.
    case silent(CoveError)
}

/// The accounts that this user has mounted, asked side by side: one that hangs holds up no answer that another gives.
enum MountedAccounts {
    /// How long the answers of accounts are waited for that nobody else can replace.
    static let patience: TimeInterval = 60

    /// Where this user's accounts are mounted; only the one that `COVE_ACCOUNT` names, where it names one.
    static var all: [Mount] {
        let name = ProcessEnvironment.value("COVE_ACCOUNT").map { "cove:\($0)" }
        return ((try? MountTable.read()) ?? []).filter { mount in
            mount.isWholeOwnAccount && (name == nil || mount.source == name)
        }
    }

    /// What the first account says that knows, or refuses.
    ///
    /// Throws, where none does, what one said that can't tell now, then that one did not answer, then what all the others said.
    static func first<Account: Sendable, Value: Sendable>(
        of accounts: [Account],
        called name: @escaping @Sendable (Account) -> String,
        patience: TimeInterval = Self.patience,
        _ ask: @escaping @Sendable (Account) -> AccountAnswer<Value>
    ) async throws(CoveError) -> Value {
        let answers = start(accounts, ask)
        return try await FileThreads.run { () throws(CoveError) in
            let deadline = Date(timeIntervalSinceNow: patience)
            let final = try? answers.wait(until: deadline) { answers throws(CoveError) -> AccountAnswer<Value>?? in
                for case .some(let answer) in answers {
                    switch answer {
                    case .found, .refused: return .some(answer)
                    case .unknown, .silent: continue
                    }
                }
                return answers.allSatisfy { $0 != nil } ? .some(nil) : nil
            }
            switch final ?? nil {
            case .found(let value): return value
            case .refused(let error): throw error
            case .unknown, .silent, nil: throw failure(answers.withLock { $0 }, accounts.map(name))
            }
        }
    }

    /// What the first of the accounts gives, by their order; one that hangs or gives nothing is passed over.
    static func foremost<Account: Sendable, Value: Sendable>(
        of accounts: [Account],
        patience: TimeInterval,
        _ ask: @escaping @Sendable (Account) -> Value?
    ) async -> Value? {
        let answers = start(accounts, ask)
        return await FileThreads.run {
            let deadline = Date(timeIntervalSinceNow: patience)
            let found = try? answers.wait(until: deadline) { answers throws(CoveError) -> Value?? in
                for answer in answers {
                    guard let answer else { return nil }
                    if let answer { return .some(answer) }
                }
                return .some(nil)
            }
            return (found ?? nil) ?? answers.withLock { $0.lazy.compactMap { $0 ?? nil }.first }
        }
    }

    /// Asks all of them, each on a thread of its own, which may last as long as the account hangs.
    private static func start<Account: Sendable, Answer: Sendable>(
        _ accounts: [Account],
        _ ask: @escaping @Sendable (Account) -> Answer
    ) -> Monitor<[Answer?]> {
        let answers = Monitor<[Answer?]>(Array(repeating: nil, count: accounts.count))
        for (index, account) in accounts.enumerated() {
            FileThreads.start {
                let answer = ask(account)
                answers.withLock { $0[index] = answer }
            }
        }
        return answers
    }

    private static func failure<Value>(_ answers: [AccountAnswer<Value>?], _ names: [String]) -> CoveError {
        var unable: CoveError?
        var unaware: CoveError?
        var missing: (name: String, error: CoveError)?
        for (answer, name) in zip(answers, names) {
            switch answer {
            case .unknown(let error) where error.code == .accessDenied: unaware = unaware ?? error
            case .unknown(let error): unable = unable ?? error
            case .silent(let error): missing = missing ?? (name, error)
            case nil: missing = (name, CoveError(.timedOut, "it is silent"))
            case .found, .refused: break
            }
        }
        if let unable { return unable }
        if let missing {
            let words = "the account at \(missing.name) does not answer (\(missing.error.message))"
            let others = names.count > 1 ? "no other account knows it, and " : ""
            return CoveError(missing.error.code, others + words + "; try again when it does")
        }
        return unaware ?? CoveError(.noSuchFile, "no account of Cove's is mounted")
    }
}

extension Mount {
    /// Where it is mounted; nothing is looked up for it, which could hang.
    var rootURL: URL { URL(fileURLWithPath: path, isDirectory: true) }
}
