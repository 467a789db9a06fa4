extension FileCoordinator {
    /// Begins to send messages to a presenter, and keeps it until `removeFilePresenter`.
    ///
    /// To miss nothing, add it inside the accessor that first reads the item, with the form that blocks.
    public static func addFilePresenter(_ presenter: any FilePresenter) async throws(CoveError) {
        try await FileThreads.run { () throws(CoveError) in try PresenterRegistry.add(presenter) }
    }

    /// Ends `addFilePresenter`.
    public static func removeFilePresenter(_ presenter: any FilePresenter) async {
        await FileThreads.run { PresenterRegistry.remove(presenter) }
    }

    /// The presenter's `presentedItemURL` is another one now, for another reason than `presentedItemDidMove`.
    public static func presentedItemURLDidChange(of presenter: any FilePresenter) async throws(CoveError) {
        try await FileThreads.run { () throws(CoveError) in try PresenterRegistry.update(presenter) }
    }

    /// Begins to send messages to a presenter.
    ///
    /// Blocks for a moment.
    @available(*, noasync)
    public static func addFilePresenter(_ presenter: any FilePresenter) throws(CoveError) {
        try PresenterRegistry.add(presenter)
    }

    /// Ends `addFilePresenter`.
    ///
    /// Blocks for a moment.
    @available(*, noasync)
    public static func removeFilePresenter(_ presenter: any FilePresenter) { PresenterRegistry.remove(presenter) }

    /// The presenters of this process.
    public static var filePresenters: [any FilePresenter] { PresenterRegistry.presenters }
}
