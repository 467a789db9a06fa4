internal import CoveCore

/// Finds out what a server does by trying it out.
///
/// What it answers in a bad moment tells nothing of it: after such an answer it is tried out again, until two times agree.
/// The body tries it out once, and says whether all answers were such as come again.
func tryOut<Found: Equatable>(
    _ body: () async -> (result: Result<Found, ProviderError>, isSure: Bool)
) async throws(ProviderError) -> Found {
    var found: [Found] = []
    for round in 1...4 {
        if round > 1 { do { try await Task.sleep(for: .milliseconds(50).doubled(round)) } catch { throw .cancelled } }
        let (result, isSure) = await body()
        switch result {
        case .success(let server):
            if isSure || found.contains(server) { return server }
            found.append(server)
        case .failure(let error):
            if isSure || round == 4 || error == .cancelled || error.parksAccount { throw error }
        }
    }
    throw .serverUnreachable("it answers otherwise each time that it is tried out")
}
