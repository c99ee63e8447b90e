//! The way from any thread to an environment's JavaScript: one threadsafe function for all promises.
//!
//! napi gives each promise a threadsafe function and a hook of its own, which costs more than the rest of a start on JavaScript's
//! thread. Here each environment has one. It keeps the event loop alive while a promise is pending. When the environment is torn
//! down, what is still sent is dropped, and its promises stay pending, as nobody can await them any more.

use ground::lock::lock;
use napi::{Env, sys};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Converts an outcome to a JavaScript value. It runs on JavaScript's thread.
pub(super) type Conversion = Box<dyn FnOnce(sys::napi_env) -> napi::Result<sys::napi_value> + Send>;

thread_local! {
    /// The mailbox of this thread's environment.
    static MAILBOX: RefCell<Option<Rc<Mailbox>>> = const { RefCell::new(None) };
}

/// JavaScript's side.
struct Mailbox {
    env: sys::napi_env,
    function: sys::napi_threadsafe_function,
    slot: Arc<Slot>,
    /// Promises that have not been settled.
    pending: Cell<usize>,
}

/// The other threads' side: the function, until the environment is torn down.
#[derive(Default)]
struct Slot(Mutex<Option<Function>>);

struct Function(sys::napi_threadsafe_function);

// SAFETY: Node-API allows calls of a threadsafe function from any thread. It is called under the lock only, and taken out of it
// before it is released.
unsafe impl Send for Function {}

/// Settles one promise.
pub(super) struct Settler {
    slot: Arc<Slot>,
    deferred: Deferred,
}

struct Deferred(sys::napi_deferred);

// SAFETY: other threads only carry the pointer; it is used on the thread of its environment.
unsafe impl Send for Deferred {}

struct Letter {
    deferred: Deferred,
    conversion: Conversion,
}

impl Settler {
    /// Resolves the promise with the converted value. Does nothing after the end of the environment.
    pub(super) fn settle(self, conversion: Conversion) {
        let slot = lock(&self.slot.0);
        let Some(function) = slot.as_ref() else { return };
        let letter = Box::into_raw(Box::new(Letter { deferred: self.deferred, conversion }));
        let mode = sys::ThreadsafeFunctionCallMode::nonblocking;
        // SAFETY: the function lives as long as it is in the slot, which is locked. Its queue has no limit.
        let status = unsafe { sys::napi_call_threadsafe_function(function.0, letter.cast(), mode) };
        if status != sys::Status::napi_ok {
            // SAFETY: a refused call has not taken the letter.
            drop(unsafe { Box::from_raw(letter) });
        }
    }
}

/// A new promise, and what settles it.
pub(super) fn promise(env: &Env) -> napi::Result<(sys::napi_value, Settler)> {
    let mailbox = Mailbox::of(env)?;
    let (mut deferred, mut promise) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the environment is of this thread; both places outlive the call.
    check(unsafe { sys::napi_create_promise(env.raw(), &mut deferred, &mut promise) })?;
    mailbox.expect_one();
    Ok((promise, Settler { slot: mailbox.slot.clone(), deferred: Deferred(deferred) }))
}

impl Mailbox {
    fn of(env: &Env) -> napi::Result<Rc<Mailbox>> {
        let known = MAILBOX.with_borrow(Clone::clone).filter(|mailbox| mailbox.env == env.raw());
        if let Some(mailbox) = known {
            return Ok(mailbox);
        }
        let mailbox = Rc::new(Mailbox::new(env)?);
        MAILBOX.set(Some(mailbox.clone()));
        Ok(mailbox)
    }

    fn new(env: &Env) -> napi::Result<Mailbox> {
        let name = env.create_string("sheepdog promises")?;
        let mut function = ptr::null_mut();
        // SAFETY: the environment is of this thread. Without a JavaScript function Node-API calls `open` alone.
        check(unsafe {
            sys::napi_create_threadsafe_function(
                env.raw(),
                ptr::null_mut(),
                ptr::null_mut(),
                napi::JsValue::raw(&name),
                0,
                1,
                ptr::null_mut(),
                None,
                ptr::null_mut(),
                Some(open),
                &mut function,
            )
        })?;
        let slot = Arc::new(Slot(Mutex::new(Some(Function(function)))));
        // SAFETY: as above; the function was made right now.
        check(unsafe { sys::napi_unref_threadsafe_function(env.raw(), function) })?;
        let hook = Arc::into_raw(slot.clone()).cast_mut().cast();
        // Hooks run in reverse order: before Node releases the function.
        // SAFETY: `close` takes back the reference that it is given here, once.
        check(unsafe { sys::napi_add_env_cleanup_hook(env.raw(), Some(close), hook) })?;
        Ok(Mailbox { env: env.raw(), function, slot, pending: Cell::new(0) })
    }

    fn expect_one(&self) {
        if self.pending.replace(self.pending.get() + 1) == 0 {
            // SAFETY: this is the thread of the environment, whose function lives until its end.
            unsafe { sys::napi_ref_threadsafe_function(self.env, self.function) };
        }
    }

    fn settled_one(&self) {
        self.pending.set(self.pending.get().saturating_sub(1));
        if self.pending.get() == 0 {
            // SAFETY: as above.
            unsafe { sys::napi_unref_threadsafe_function(self.env, self.function) };
        }
    }
}

/// Settles the promise of a letter, on JavaScript's thread.
unsafe extern "C" fn open(
    env: sys::napi_env,
    _function: sys::napi_value,
    _context: *mut c_void,
    letter: *mut c_void,
) {
    // SAFETY: `settle` boxed it, and the queue gives each letter once.
    let Letter { deferred, conversion } = *unsafe { Box::from_raw(letter.cast::<Letter>()) };
    if env.is_null() {
        // The environment is being torn down.
        return;
    }
    // SAFETY: the environment is of this thread, and each promise has one letter.
    unsafe {
        match conversion(env) {
            Ok(value) => sys::napi_resolve_deferred(env, deferred.0, value),
            Err(error) => {
                sys::napi_reject_deferred(env, deferred.0, napi::JsError::from(error).into_value(env))
            }
        }
    };
    if let Some(mailbox) = MAILBOX.with_borrow(Clone::clone).filter(|mailbox| mailbox.env == env) {
        mailbox.settled_one();
    }
}

/// Runs when the environment is torn down, on its thread.
unsafe extern "C" fn close(slot: *mut c_void) {
    // SAFETY: the hook was given one reference.
    let slot = unsafe { Arc::from_raw(slot.cast::<Slot>()) };
    let function = lock(&slot.0).take();
    if let Some(Function(function)) = function {
        // SAFETY: nobody can call it any more, and Node has not released it.
        unsafe { sys::napi_release_threadsafe_function(function, sys::ThreadsafeFunctionReleaseMode::abort) };
    }
    MAILBOX.set(None);
}

fn check(status: sys::napi_status) -> napi::Result<()> {
    if status == sys::Status::napi_ok {
        return Ok(());
    }
    Err(napi::Error::new(napi::Status::from(status), "no promise could be made"))
}
