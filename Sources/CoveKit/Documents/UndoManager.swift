/// Takes edits back and does them again.
///
/// It belongs to whoever made it, as the text that it changes does, and is used there alone. `Document.makeUndoManager` makes one
/// that counts a document's changes.
public final class UndoManager {
    private struct Action {
        var name: String
        var steps: [() -> Void]
    }

    private enum Mode { case editing, undoing, redoing }

    private var done: [Action] = []
    private var undone: [Action] = []
    private var mode = Mode.editing
    /// Steps of the group that is open, and how many are open inside each other.
    private var group = Action(name: "", steps: [])
    private var depth = 0
    private let didChange: (Document.ChangeKind) -> Void

    /// How many actions can be taken back; 0 for all.
    public var levelsOfUndo = 0 {
        didSet { trim() }
    }

    /// Makes one; the body is called after each action that was done, taken back or done again.
    public init(didChange: @escaping (Document.ChangeKind) -> Void = { _ in }) { self.didChange = didChange }

    /// True when there is something to take back.
    public var canUndo: Bool { !done.isEmpty && depth == 0 }
    /// True when something was taken back, and nothing was done since.
    public var canRedo: Bool { !undone.isEmpty && depth == 0 }
    /// True while an action is taken back.
    public var isUndoing: Bool { mode == .undoing }
    /// True while an action is done again.
    public var isRedoing: Bool { mode == .redoing }
    /// A name for what `undo` takes back; empty without one.
    public var undoActionName: String { done.last?.name ?? "" }
    /// A name for what `redo` does again; empty without one.
    public var redoActionName: String { undone.last?.name ?? "" }

    /// Registers how an edit that is being made is taken back, as an action or as a part of the open group.
    ///
    /// What the handler registers in its turn, when it is called, does the edit again. The target is not kept alive.
    public func registerUndo<Target: AnyObject>(withTarget target: Target, handler: @escaping (Target) -> Void) {
        beginUndoGrouping()
        group.steps.append { [weak target] in target.map(handler) }
        endUndoGrouping()
    }

    /// Names the action of the open group, or else the last one.
    public func setActionName(_ name: String) {
        if depth > 0 {
            group.name = name
        } else if let last = done.indices.last {
            done[last].name = name
        }
    }

    /// Until `endUndoGrouping` all that is registered is one action.
    public func beginUndoGrouping() { depth += 1 }

    /// Ends `beginUndoGrouping`; a group in which nothing was registered is no action.
    public func endUndoGrouping() {
        guard depth > 0 else { return }
        depth -= 1
        guard depth == 0 else { return }
        let action = group
        group = Action(name: "", steps: [])
        guard !action.steps.isEmpty else { return }
        switch mode {
        case .editing:
            done.append(action)
            undone = []
            trim()
            didChange(.done)
        case .undoing: undone.append(action)
        case .redoing: done.append(action)
        }
    }

    /// Takes the last action back; changes nothing where there is none, or a group is open.
    public func undo() {
        guard canUndo, mode == .editing, let action = done.popLast() else { return }
        run(action, .undoing)
        didChange(.undone)
    }

    /// Does the action again that was taken back last; changes nothing where there is none, or a group is open.
    public func redo() {
        guard canRedo, mode == .editing, let action = undone.popLast() else { return }
        run(action, .redoing)
        didChange(.redone)
    }

    /// Forgets all actions, as after a document was loaded anew.
    public func removeAllActions() {
        done = []
        undone = []
        group = Action(name: "", steps: [])
    }

    /// All that the action's steps register is one action the other way round.
    private func run(_ action: Action, _ mode: Mode) {
        self.mode = mode
        beginUndoGrouping()
        group.name = action.name
        for step in action.steps.reversed() { step() }
        endUndoGrouping()
        self.mode = .editing
    }

    private func trim() {
        if levelsOfUndo > 0, done.count > levelsOfUndo { done.removeFirst(done.count - levelsOfUndo) }
    }
}

extension Document {
    /// Makes an undo manager whose actions are changes of the document: `updateChangeCount(_:)` is called for each.
    ///
    /// A subclass keeps it with what it edits, and calls its `removeAllActions` when it loads.
    public func makeUndoManager() -> UndoManager {
        UndoManager { [weak self] change in self?.updateChangeCount(change) }
    }
}
